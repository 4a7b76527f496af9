//! Random policies: every algorithm, one to three limits, ordinary numbers and the ends of their ranges.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::model::{Micros, ModelAlgorithm, ModelLimit, ModelPolicy, Units};

const SECOND: Micros = 1_000_000;
const DAY: Micros = 86_400 * SECOND;
const MAX_WINDOW: Micros = 366 * DAY;
const MAX_UNITS: Units = 1_000_000_000_000;

/// Generates numbers of every magnitude.
fn any_magnitude(least: i128, greatest: i128) -> impl Strategy<Value = i128> {
    (0..40u32).prop_flat_map(move |bits| {
        let low = least.saturating_mul(1 << bits).min(greatest);
        low..=low.saturating_mul(2).min(greatest)
    })
}

fn window() -> impl Strategy<Value = Micros> {
    let known =
        vec![1_000, 1_001, 7_777, SECOND, 10 * SECOND, 60 * SECOND, 3_600 * SECOND, DAY, MAX_WINDOW - 1, MAX_WINDOW];
    prop_oneof![3 => select(known), 1 => 1_000..=1_100i128, 1 => any_magnitude(1_000, MAX_WINDOW)]
}

fn windows() -> impl Strategy<Value = Vec<Micros>> {
    let several = vec![1_000, 1_003, 10_000, SECOND, 60 * SECOND, 3_600 * SECOND, DAY, MAX_WINDOW];
    prop_oneof![
        3 => window().prop_map(|window| vec![window]),
        2 => subsequence(several, 2..=3).prop_shuffle(),
    ]
}

/// Generates the max of a limit.
pub fn max() -> impl Strategy<Value = Units> {
    prop_oneof![
        5 => 1..=12i128,
        1 => select(vec![100, 1_000, 9_500, 1_000_000, MAX_UNITS - 1, MAX_UNITS]),
        1 => any_magnitude(1, MAX_UNITS),
    ]
}

fn buckets() -> impl Strategy<Value = ModelAlgorithm> {
    prop_oneof![select(vec![1i128, 2, 3, 7, 10, 60, 999, 1_000]), 1..=1_000i128]
        .prop_map(ModelAlgorithm::SlidingBuckets)
}

/// Generates every algorithm.
pub fn algorithm() -> impl Strategy<Value = ModelAlgorithm> {
    prop_oneof![
        Just(ModelAlgorithm::SlidingLog),
        Just(ModelAlgorithm::SlidingCounter),
        buckets(),
        Just(ModelAlgorithm::FixedWindow),
        Just(ModelAlgorithm::Gcra),
    ]
}

/// Generates the burst of a gcra policy. Without one, the burst is the max of each limit.
fn burst() -> impl Strategy<Value = Option<Units>> {
    prop_oneof![
        2 => Just(None),
        3 => (1..=20i128).prop_map(Some),
        1 => any_magnitude(1, MAX_UNITS).prop_map(Some),
    ]
}

fn make(algorithm: ModelAlgorithm, windows: &[Micros], maxes: &[Units], burst: Option<Units>) -> ModelPolicy {
    let limits = windows.iter().zip(maxes).map(|(window, max)| ModelLimit::new(*max, *window));
    let mut policy = ModelPolicy::new(algorithm, limits.collect());
    if let (ModelAlgorithm::Gcra, Some(burst)) = (algorithm, burst) {
        let capacity = burst.min(policy.storable());
        for limit in &mut policy.limits {
            limit.capacity = capacity;
        }
    }
    policy
}

/// Generates policies with the given algorithms.
pub fn policy_of(algorithm: impl Strategy<Value = ModelAlgorithm>) -> impl Strategy<Value = ModelPolicy> {
    (algorithm, windows(), [max(), max(), max()], burst())
        .prop_map(|(algorithm, windows, maxes, burst)| make(algorithm, &windows, &maxes, burst))
}

/// Generates policies with every algorithm.
pub fn policy() -> impl Strategy<Value = ModelPolicy> {
    policy_of(algorithm())
}

/// Generates `count` policies with one limit each. Their windows have similar lengths, so that a history under one policy
/// matters to the others.
pub fn single_limit_policies(
    algorithm: impl Strategy<Value = ModelAlgorithm>,
    count: usize,
) -> impl Strategy<Value = Vec<ModelPolicy>> {
    let burst = prop_oneof![Just(None), (1..=20i128).prop_map(Some)];
    let one = (algorithm, select(vec![2, 3, 4, 6, 7, 12]), 1..=12i128, burst);
    let base = select(vec![1_000, 1_001, SECOND, 3_600 * SECOND, 25 * DAY]);
    (base, prop::collection::vec(one, count)).prop_map(|(base, each)| {
        each.into_iter()
            .map(|(algorithm, factor, max, burst)| make(algorithm, &[base * factor], &[max], burst))
            .collect()
    })
}

/// Generates two policies with one limit each, at most one of which is gcra. The suite `changed_limits` covers a debt
/// under another window.
pub(crate) fn two_policies() -> impl Strategy<Value = Vec<ModelPolicy>> {
    single_limit_policies(algorithm(), 2).prop_filter("at most one is gcra", |policies| {
        policies.iter().any(|policy| policy.algorithm != ModelAlgorithm::Gcra)
    })
}
