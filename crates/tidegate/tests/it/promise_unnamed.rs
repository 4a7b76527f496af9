//! Limits brought by the caller: their state is that of (key, algorithm, windows), and of nothing else.

use std::time::Duration;

use tidegate::{Algorithm, Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

fn brought(limits: &[(u64, u64)], algorithm: Algorithm) -> Policy {
    let limit = |(max, seconds): &(u64, u64)| Limit::new(*max, Duration::from_secs(*seconds)).expect("in range");
    Policy::unnamed(limits.iter().map(limit)).expect("in range").with_algorithm(algorithm)
}

fn spend(store: &MemoryStore, policy: &Policy, key: &str, units: u64) {
    let key = Key::new(key).expect("a key");
    let cost = Cost::new(units).expect("in range");
    let decision = store.decide(Op::Charge, policy, &key, cost, Timestamp::from_micros(1_000_000));
    assert!(decision.is_allowed());
}

fn in_use(store: &MemoryStore, policy: &Policy, key: &str) -> u64 {
    let key = Key::new(key).expect("a key");
    store.decide(Op::Peek, policy, &key, Cost::ONE, Timestamp::from_micros(1_000_000)).used()
}

#[test]
fn callers_with_another_max_share_what_is_in_use() {
    let store = MemoryStore::default();
    spend(&store, &brought(&[(5, 10)], Algorithm::SlidingLog), "alice", 3);
    assert_eq!(in_use(&store, &brought(&[(7, 10)], Algorithm::SlidingLog), "alice"), 3);
    spend(&store, &brought(&[(7, 10)], Algorithm::SlidingLog), "alice", 2);
    assert_eq!(in_use(&store, &brought(&[(5, 10)], Algorithm::SlidingLog), "alice"), 5);
}

#[test]
fn callers_with_other_windows_algorithms_or_keys_do_not_overwrite_each_other() {
    let store = MemoryStore::default();
    let one = brought(&[(5, 10)], Algorithm::SlidingLog);
    spend(&store, &one, "alice", 3);
    let others = [
        brought(&[(5, 20)], Algorithm::SlidingLog),
        brought(&[(5, 10), (50, 20)], Algorithm::SlidingLog),
        brought(&[(5, 10)], Algorithm::SlidingCounter),
        brought(&[(5, 10)], Algorithm::FixedWindow),
        brought(&[(5, 10)], Algorithm::Gcra(None)),
        Policy::new("named", one.limits().to_vec()).expect("in range"),
    ];
    for (i, other) in others.iter().enumerate() {
        assert_eq!(in_use(&store, other, "alice"), 0, "{other:?}");
        spend(&store, other, "alice", 1 + i as u64 % 2);
    }
    assert_eq!(in_use(&store, &one, "alice"), 3);
    assert_eq!(in_use(&store, &one, "bob"), 0);
    for (i, other) in others.iter().enumerate() {
        assert_eq!(in_use(&store, other, "alice"), 1 + i as u64 % 2, "{other:?}");
    }
}
