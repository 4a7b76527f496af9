//! What the simulations promise.

#[test]
fn show() {
    use super::*;
    for limit in ["100/1m", "7/1ms", "1000000000000/366d", "1/1ms"] {
        println!("{}", boundary::text(&boundary::run(limit.parse().unwrap(), &one_of_each())));
    }
    let mut options = accuracy::Options::new("100/1m".parse().unwrap());
    options.requests = 100_000;
    println!("{}", accuracy::text(&accuracy::run(&options).unwrap()));
    let options = compare::Options::new("100/1m".parse().unwrap());
    println!("{}", compare::text(&compare::run(&options).unwrap()));
}
