//! At an edge every algorithm lets through exactly what it is known for.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{Algorithm, Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

use super::limit;
use crate::simulate::{
    approximations,
    boundary::{AtEdge, Boundary, run},
    one_of_each,
};

const MAX_WINDOW_US: u64 = 366 * 86_400_000_000;

fn of<'a>(boundary: &'a Boundary, scene: usize, algorithm: &str) -> &'a AtEdge {
    let found = boundary.scenes[scene].algorithms.iter().find(|at_edge| at_edge.algorithm == algorithm);
    found.expect("it was tried")
}

fn limits() -> impl Strategy<Value = Limit> {
    let max = prop_oneof![1..50_u64, 1..100_000_u64, 1..=1_000_000_000_000_u64];
    let window_us = prop_oneof![1_000..2_000_u64, 1_000..100_000_000_u64, 1_000..=MAX_WINDOW_US];
    (max, window_us).prop_map(|(max, window)| Limit::new(max, Duration::from_micros(window)).expect("in range"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(std::env::var("PROPTEST_CASES").map_or(64, |cases| cases.parse().expect("a number"))))]

    #[test]
    fn fixed_lets_twice_the_limit_through_the_log_once_and_all_keep_their_promise(limit in limits()) {
        let boundary = run(limit, &[one_of_each(), approximations()].concat());
        let (max, window) = (limit.max(), boundary.window_us);
        for scene in 0..2 {
            prop_assert_eq!(of(&boundary, scene, "fixed_window").worst_window_units, 2 * max);
            prop_assert_eq!(of(&boundary, scene, "sliding_log").worst_window_units, max);
            for at_edge in &boundary.scenes[scene].algorithms {
                prop_assert!(at_edge.worst_window_units <= at_edge.promised_window_units, "{:?}", at_edge);
                prop_assert_eq!(at_edge.admitted_before, max);
                prop_assert_eq!(at_edge.in_window.iter().max(), Some(&at_edge.worst_window_units));
            }
        }
        // Two microseconds of the burst's window still overlap when the last of the trickle comes.
        let held = u64::try_from(u128::from(max) * 2 / u128::from(window)).unwrap();
        prop_assert_eq!(of(&boundary, 1, "sliding_counter").worst_window_units, 2 * max - held);
    }
}

#[test]
fn what_is_decided_as_one_is_what_comes_one_by_one() {
    for limit in ["1/1ms", "7/1ms", "40/1m", "1500/1ms", "33/7h"].map(limit) {
        let boundary = run(limit, &one_of_each());
        for (algorithm, scene) in one_of_each().into_iter().flat_map(|algorithm| [(algorithm, 0), (algorithm, 1)]) {
            let scene = &boundary.scenes[scene];
            let found = scene.algorithms.iter().find(|at_edge| at_edge.algorithm == algorithm.to_string()).unwrap();
            let moments = scene.moments_us.iter().zip(&scene.tried);
            let moments = moments.map(|(at, tried)| (boundary.edge_us.saturating_add_signed(*at), *tried));
            assert_eq!(found.admitted, one_by_one(limit, algorithm, moments), "{limit} {algorithm} {}", scene.scene);
        }
    }
}

fn one_by_one(limit: Limit, algorithm: Algorithm, moments: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
    let (store, key) = (MemoryStore::default(), Key::new("one").unwrap());
    let policy = Policy::unnamed([limit]).unwrap().with_algorithm(algorithm);
    let admitted = |(time, tried): (u64, u64)| {
        let now = Timestamp::from_micros(time);
        (0..tried).filter(|_| store.decide(Op::Check, &policy, &key, Cost::ONE, now).is_allowed()).count() as u64
    };
    moments.map(admitted).collect()
}
