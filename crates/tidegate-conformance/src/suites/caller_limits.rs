//! The state of limits supplied by a caller belongs to the key, the algorithm and the windows.

use std::time::Duration;

use tidegate::{Algorithm, Cost, Decision, Limit, Op, Policy, Store, Timestamp};

use crate::StoreUnderTest;

const NOW: Timestamp = Timestamp::from_micros(1_000_000);

fn supplied(limits: &[(u64, u64)], algorithm: Algorithm) -> Policy {
    let limit = |(max, seconds): &(u64, u64)| Limit::new(*max, Duration::from_secs(*seconds)).expect("in range");
    Policy::unnamed(limits.iter().map(limit)).expect("in range").with_algorithm(algorithm)
}

fn decide<S: StoreUnderTest>(store: &S, op: Op, policy: &Policy, key: &str, units: u64) -> Decision {
    let key = store.key(key.as_bytes());
    let cost = Cost::new(units).expect("in range");
    store.run(store.at(NOW).decide(op, policy, &key, cost)).expect("the store answers")
}

fn charge<S: StoreUnderTest>(store: &S, policy: &Policy, key: &str, units: u64) {
    let decision = decide(store, Op::Charge, policy, key, units);
    assert!(decision.is_allowed(), "broken promise: a charge is always allowed\n  got: {decision:?}");
}

fn assert_used<S: StoreUnderTest>(store: &S, policy: &Policy, key: &str, expected: u64) {
    let got = decide(store, Op::Peek, policy, key, 1).used();
    assert!(
        got == expected,
        "broken promise: the state of limits supplied by a caller belongs to the key, the algorithm and the windows\n\
         units in use by {key} at {NOW:?} under {policy:?}\n  expected: {expected}\n  got:      {got}"
    );
}

/// Callers that differ only in the max share one state.
///
/// # Panics
/// If the store breaks this promise.
pub fn callers_with_another_max_share_one_state<S: StoreUnderTest>() {
    let store = S::empty(0);
    charge(&store, &supplied(&[(5, 10)], Algorithm::SlidingLog), "alice", 3);
    assert_used(&store, &supplied(&[(7, 10)], Algorithm::SlidingLog), "alice", 3);
    charge(&store, &supplied(&[(7, 10)], Algorithm::SlidingLog), "alice", 2);
    assert_used(&store, &supplied(&[(5, 10)], Algorithm::SlidingLog), "alice", 5);
}

/// Callers that differ in the windows, the algorithm or the key have separate states.
///
/// # Panics
/// If the store breaks this promise.
pub fn callers_with_other_windows_algorithms_or_keys_have_separate_states<S: StoreUnderTest>() {
    let store = S::empty(1);
    let one = supplied(&[(5, 10)], Algorithm::SlidingLog);
    charge(&store, &one, "alice", 3);
    let others = [
        supplied(&[(5, 20)], Algorithm::SlidingLog),
        supplied(&[(5, 10), (50, 20)], Algorithm::SlidingLog),
        supplied(&[(5, 10)], Algorithm::SlidingCounter),
        supplied(&[(5, 10)], Algorithm::FixedWindow),
        supplied(&[(5, 10)], Algorithm::Gcra(None)),
        Policy::new("named", one.limits().to_vec()).expect("in range"),
    ];
    for (i, other) in others.iter().enumerate() {
        assert_used(&store, other, "alice", 0);
        charge(&store, other, "alice", 1 + i as u64 % 2);
    }
    assert_used(&store, &one, "alice", 3);
    assert_used(&store, &one, "bob", 0);
    for (i, other) in others.iter().enumerate() {
        assert_used(&store, other, "alice", 1 + i as u64 % 2);
    }
}
