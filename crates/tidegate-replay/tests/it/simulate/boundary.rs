//! Each algorithm admits its known amount at a boundary.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{Algorithm, Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

use super::limit;
use tidegate_replay::simulate::{
    approximations,
    boundary::{Boundary, BoundaryResult, run},
    one_of_each,
};

const MAX_WINDOW_US: u64 = 366 * 86_400_000_000;

fn of<'a>(boundary: &'a Boundary, scenario: usize, algorithm: &str) -> &'a BoundaryResult {
    let found = boundary.scenarios[scenario].algorithms.iter().find(|result| result.algorithm == algorithm);
    found.expect("a result")
}

fn limits() -> impl Strategy<Value = Limit> {
    let max = prop_oneof![1..50_u64, 1..100_000_u64, 1..=1_000_000_000_000_u64];
    let window_us = prop_oneof![1_000..2_000_u64, 1_000..100_000_000_u64, 1_000..=MAX_WINDOW_US];
    (max, window_us).prop_map(|(max, window)| Limit::new(max, Duration::from_micros(window)).expect("in range"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(std::env::var("PROPTEST_CASES").map_or(64, |cases| cases.parse().expect("a number"))))]

    #[test]
    fn fixed_windows_admit_twice_the_limit_and_all_algorithms_keep_their_promise(limit in limits()) {
        let boundary = run(limit, &[one_of_each(), approximations()].concat());
        let (max, window) = (limit.max(), boundary.window_us);
        for scenario in 0..2 {
            prop_assert_eq!(of(&boundary, scenario, "fixed_window").worst_window_units, 2 * max);
            prop_assert_eq!(of(&boundary, scenario, "sliding_log").worst_window_units, max);
            for result in &boundary.scenarios[scenario].algorithms {
                prop_assert!(result.worst_window_units <= result.promised_window_units, "{:?}", result);
                prop_assert_eq!(result.admitted_before, max);
                prop_assert_eq!(result.in_window.iter().max(), Some(&result.worst_window_units));
            }
        }
        // The window of the last attempt overlaps the window of the burst by two microseconds.
        let remaining = u64::try_from(u128::from(max) * 2 / u128::from(window)).unwrap();
        prop_assert_eq!(of(&boundary, 1, "sliding_counter").worst_window_units, 2 * max - remaining);
    }
}

#[test]
fn one_large_request_admits_as_much_as_single_requests() {
    for limit in ["1/1ms", "7/1ms", "40/1m", "1500/1ms", "33/7h"].map(limit) {
        let boundary = run(limit, &one_of_each());
        for (algorithm, scenario) in one_of_each().into_iter().flat_map(|algorithm| [(algorithm, 0), (algorithm, 1)]) {
            let scenario = &boundary.scenarios[scenario];
            let found = scenario.algorithms.iter().find(|result| result.algorithm == algorithm.to_string()).unwrap();
            let moments = scenario.moments_us.iter().zip(&scenario.attempted);
            let moments = moments.map(|(at, units)| (boundary.edge_us.saturating_add_signed(*at), *units));
            assert_eq!(found.admitted, one_by_one(limit, algorithm, moments), "{limit} {algorithm} {}", scenario.name);
        }
    }
}

fn one_by_one(limit: Limit, algorithm: Algorithm, moments: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
    let (store, key) = (MemoryStore::default(), Key::new("one").unwrap());
    let policy = Policy::unnamed([limit]).unwrap().with_algorithm(algorithm);
    let admitted = |(time, units): (u64, u64)| {
        let now = Timestamp::from_micros(time);
        (0..units).filter(|_| store.decide(Op::Check, &policy, &key, Cost::ONE, now).is_allowed()).count() as u64
    };
    moments.map(admitted).collect()
}
