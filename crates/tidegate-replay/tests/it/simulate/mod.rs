//! Tests of the simulations.

mod boundary;
mod evaluation;
mod texts;
mod traffic;

use tidegate::Limit;

fn limit(text: &str) -> Limit {
    text.parse().expect("a limit")
}
