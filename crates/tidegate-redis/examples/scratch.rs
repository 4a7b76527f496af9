//! scratch
use tidegate::*;
use tidegate_redis::RedisStore;
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server = tidegate_testbed::Server::start();
    let store = RedisStore::connect(&server.url()).unwrap();
    store.ready().await;
    let n: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let window = std::env::args().nth(2).unwrap();
    let algo = std::env::args().nth(3).unwrap();
    let policy = Policy::new("long", [window.parse().unwrap()]).unwrap().with_algorithm(algo.parse().unwrap());
    let key = Key::new("x").unwrap();
    let mut now = 1_700_000_000_000_000u64;
    let cpu = || { let t = server.wire().command(["INFO", "cpu"]).as_str_lossy().into_owned(); let g = |n: &str| t.lines().find_map(|l| l.strip_prefix(n)).unwrap().trim().parse::<f64>().unwrap(); g("used_cpu_user:") + g("used_cpu_sys:") };
    let c0 = cpu();
    let t = std::time::Instant::now();
    for _ in 0..n / 1000 {
        let f = (0..1000).map(|i| store.decide_at(Op::Check, &policy, &key, Cost::ONE, Timestamp::from_micros(now + i * 1000)));
        for d in futures_util::future::join_all(f).await { let _ = d.unwrap(); }
        now += 1_000_000;
    }
    println!("{:?} per decision", t.elapsed() / n as u32);
    println!("cpu {:.2}us per decision", (cpu() - c0) * 1e6 / n as f64);
    println!("{}", server.wire().command(["INFO", "commandstats"]).as_str_lossy());
    let (c, b) = (store.stats().calls, store.stats().batched);
    println!("batch {}", b as f64 / c as f64);
    let inner = server.wire().command(["INFO", "stats"]).as_str_lossy().into_owned();
    let _ = inner;
}
