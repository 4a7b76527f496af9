//! Random scenes that look for boundary bugs: policies, costs and times near the instants where something changes.
//!
//! A step is generated as an intention ("one microsecond before the oldest charge leaves the window", "all that remains
//! and one more") and turned into numbers as the scene unfolds, so that it stays meaningful while proptest shrinks.

mod moments;
mod prices;
mod rules;

pub(crate) use moments::{Hop, Moments, any_hop, onward_hop, start};
pub(crate) use prices::{Price, price};
pub(crate) use rules::{algo, fresh_max, rule, rule_of, rules_of_one_limit};

use proptest::prelude::*;

use crate::model::Op;

/// The config of a property: `cases` at most, `PROPTEST_CASES` if that is set.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(cases);
    ProptestConfig { cases, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() }
}

/// Check for the most part, now and then peek or charge.
pub(crate) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![6 => Just(Op::Check), 2 => Just(Op::Peek), 1 => Just(Op::Charge)]
}
