//! Random scenes that look for boundary bugs: policies, costs and times near the instants where something changes.
//!
//! A step is generated as an intention ("one microsecond before the oldest charge leaves the window", "all that remains
//! and one more") and turned into numbers as the scene unfolds, so that it stays meaningful while proptest shrinks.

mod moments;
mod prices;
mod rules;

pub(crate) use moments::{Hop, Moments, any_hop, onward_hop, silence, start};
pub(crate) use prices::{Price, price};
pub(crate) use rules::{algo, fresh_max, rule, rule_of, rules_of_one_limit};

use std::ops::Range;

use proptest::prelude::*;

use crate::model::Op;

/// The value of an environment variable, if it is a number.
pub(crate) fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The config of a property: `cases` at most, `PROPTEST_CASES` if that is set.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let cases = number("PROPTEST_CASES").and_then(|cases| cases.try_into().ok()).unwrap_or(cases);
    ProptestConfig { cases, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() }
}

/// The config of a property whose cases take long: with a bound on shrinking.
pub(crate) fn long_config(cases: u32) -> ProptestConfig {
    ProptestConfig { max_shrink_iters: 4_000, max_shrink_time: 60_000, ..config(cases) }
}

/// How many steps a scene has: fewer than `most`, or fewer than `TIDEGATE_STEPS` if that is more.
pub(crate) fn steps(most: usize) -> Range<usize> {
    1..number("TIDEGATE_STEPS").unwrap_or(most).max(most)
}

/// How many steps a long history has: 300 and more, up to `TIDEGATE_STEPS`.
pub(crate) fn long_history() -> Range<usize> {
    300..number("TIDEGATE_STEPS").unwrap_or(360).max(360)
}

/// Check for the most part, now and then peek or charge.
pub(crate) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![6 => Just(Op::Check), 2 => Just(Op::Peek), 1 => Just(Op::Charge)]
}
