//! Random policies: every algorithm, one to three limits, numbers at the ends of their ranges and ordinary ones.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::model::{Algo, Cap, Micros, Rule, Units};

const SECOND: Micros = 1_000_000;
const DAY: Micros = 86_400 * SECOND;
const LONGEST: Micros = 366 * DAY;
const LARGEST: Units = 1_000_000_000_000;

/// A number whose magnitude is as random as its digits.
fn any_magnitude(least: i128, most: i128) -> impl Strategy<Value = i128> {
    (0..40u32).prop_flat_map(move |bits| {
        let low = least.saturating_mul(1 << bits).min(most);
        low..=low.saturating_mul(2).min(most)
    })
}

fn window() -> impl Strategy<Value = Micros> {
    let known = vec![1_000, 1_001, 7_777, SECOND, 10 * SECOND, 60 * SECOND, 3_600 * SECOND, DAY, LONGEST - 1, LONGEST];
    prop_oneof![3 => select(known), 1 => 1_000..=1_100i128, 1 => any_magnitude(1_000, LONGEST)]
}

fn windows() -> impl Strategy<Value = Vec<Micros>> {
    let several = vec![1_000, 1_003, 10_000, SECOND, 60 * SECOND, 3_600 * SECOND, DAY, LONGEST];
    prop_oneof![
        3 => window().prop_map(|window| vec![window]),
        2 => subsequence(several, 2..=3).prop_shuffle(),
    ]
}

pub(crate) fn fresh_max() -> impl Strategy<Value = Units> {
    prop_oneof![
        5 => 1..=12i128,
        1 => select(vec![100, 1_000, 9_500, 1_000_000, LARGEST - 1, LARGEST]),
        1 => any_magnitude(1, LARGEST),
    ]
}

fn buckets() -> impl Strategy<Value = Algo> {
    prop_oneof![select(vec![1i128, 2, 3, 7, 10, 60, 999, 1_000]), 1..=1_000i128].prop_map(Algo::Buckets)
}

pub(crate) fn algo() -> impl Strategy<Value = Algo> {
    prop_oneof![Just(Algo::Log), Just(Algo::Counter), buckets(), Just(Algo::Fixed), Just(Algo::Gcra)]
}

/// What a burst is made of, if one is said at all.
#[derive(Clone, Copy, Debug)]
enum Burst {
    Unsaid,
    Known(Units),
}

fn burst() -> impl Strategy<Value = Burst> {
    prop_oneof![
        2 => Just(Burst::Unsaid),
        3 => (1..=20i128).prop_map(Burst::Known),
        1 => any_magnitude(1, LARGEST).prop_map(Burst::Known),
    ]
}

fn made(algo: Algo, windows: &[Micros], maxes: &[Units], burst: Burst) -> Rule {
    let caps = windows.iter().zip(maxes).map(|(window, max)| Cap::new(*max, *window));
    let mut rule = Rule::new(algo, caps.collect());
    if let (Algo::Gcra, Burst::Known(burst)) = (algo, burst) {
        let capacity = burst.min(rule.storable());
        for cap in &mut rule.caps {
            cap.capacity = capacity;
        }
    }
    rule
}

/// A policy of the algorithms given.
pub(crate) fn rule_of(algo: impl Strategy<Value = Algo>) -> impl Strategy<Value = Rule> {
    (algo, windows(), [fresh_max(), fresh_max(), fresh_max()], burst())
        .prop_map(|(algo, windows, maxes, burst)| made(algo, &windows, &maxes, burst))
}

pub(crate) fn rule() -> impl Strategy<Value = Rule> {
    rule_of(algo())
}

/// As many policies of one limit each as asked for, their windows near enough to each other to matter to each other.
pub(crate) fn rules_of_one_limit(algo: impl Strategy<Value = Algo>, count: usize) -> impl Strategy<Value = Vec<Rule>> {
    let burst = prop_oneof![Just(Burst::Unsaid), (1..=20i128).prop_map(Burst::Known)];
    let one = (algo, select(vec![2, 3, 4, 6, 7, 12]), 1..=12i128, burst);
    let base = select(vec![1_000, 1_001, SECOND, 3_600 * SECOND, 25 * DAY]);
    (base, prop::collection::vec(one, count)).prop_map(|(base, each)| {
        each.into_iter().map(|(algo, times, max, burst)| made(algo, &[base * times], &[max], burst)).collect()
    })
}
