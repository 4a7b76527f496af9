//! What the simulations promise.

mod boundary;
mod texts;
mod traffic;
mod trial;

use tidegate::Limit;

fn limit(text: &str) -> Limit {
    text.parse().expect("a limit")
}
