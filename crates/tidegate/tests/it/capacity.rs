//! A full store stays within its bounds, never evicts a key with units in use, and applies one of three choices to a new
//! key.

use std::time::Duration;

use tidegate::{Algorithm, AtCapacity, Cost, Decisions, Key, Limit, MemoryStore, Op, Policy, Reason, Spend, Timestamp};

const START: u64 = 1_745_000_000_000_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(START + micros)
}

fn policy(limit: &str, algorithm: &str) -> Policy {
    let limit: Limit = limit.parse().unwrap();
    Policy::new("p", [limit]).unwrap().with_algorithm(algorithm.parse().unwrap())
}

fn store(max_keys: usize, max_bytes: usize, at_capacity: AtCapacity) -> MemoryStore {
    MemoryStore::builder().max_keys(max_keys).max_bytes(max_bytes).at_capacity(at_capacity).build().unwrap()
}

fn check(store: &MemoryStore, policy: &Policy, key: &str, now: Timestamp) -> tidegate::Decision {
    store.decide(Op::Check, policy, &Key::new(key).unwrap(), Cost::ONE, now)
}

/// Floods a store with distinct keys. The store must always stay within its bounds.
fn flood(store: &MemoryStore, policy: &Policy, keys: u64, max_keys: usize, max_bytes: usize) {
    let mut name = [0; 12];
    for n in 0..keys {
        name[..8].copy_from_slice(&n.to_le_bytes());
        let _ = store.decide(Op::Check, policy, &Key::new(&name).unwrap(), Cost::ONE, at(n / 10));
        if n % 65_536 == 0 || n + 1 == keys {
            let stats = store.stats();
            assert!(stats.keys <= max_keys, "{} keys after {n}", stats.keys);
            assert!(stats.bytes <= max_bytes, "{} bytes after {n}", stats.bytes);
        }
    }
}

#[test]
fn ten_million_keys_stay_within_the_bounds_and_a_limited_key_stays_limited() {
    let (max_keys, max_bytes) = (200_000, 16 << 20);
    let store = store(max_keys, max_bytes, AtCapacity::Shared);
    let policy = policy("2/1h", "sliding_counter");
    for _ in 0..2 {
        assert!(check(&store, &policy, "limited", at(0)).is_allowed());
    }
    assert_eq!(check(&store, &policy, "limited", at(0)).reason(), Reason::Limited);
    flood(&store, &policy, 10_000_000, max_keys, max_bytes);
    let decision = check(&store, &policy, "limited", at(1_000_000));
    assert_eq!(decision.reason(), Reason::Limited);
    assert!(!decision.is_degraded());
    assert!(store.stats().refused > 9_000_000);
}

#[test]
fn keys_with_windows_of_a_year_stay_within_the_bounds() {
    for algorithm in ["sliding_log", "sliding_buckets:1000", "gcra"] {
        for at_capacity in [AtCapacity::Shared, AtCapacity::Deny, AtCapacity::Admit] {
            let (max_keys, max_bytes) = (1_000_000, 4 << 20);
            let store = store(max_keys, max_bytes, at_capacity);
            let policy = Policy::new("p", ["3/366d".parse().unwrap(), "2/1s".parse().unwrap()]).unwrap();
            let policy = policy.with_algorithm(algorithm.parse().unwrap());
            for _ in 0..2 {
                assert!(check(&store, &policy, "limited", at(0)).is_allowed());
            }
            flood(&store, &policy, 300_000, max_keys, max_bytes);
            assert_eq!(check(&store, &policy, "limited", at(0)).reason(), Reason::Limited, "{algorithm}");
        }
    }
}

#[test]
fn long_logs_stay_within_the_bounds_and_only_get_stricter() {
    let max_bytes = 256 << 10;
    let store = store(1000, max_bytes, AtCapacity::Shared);
    let policy = policy("1_000_000/1d", "sliding_log");
    let exact = MemoryStore::default();
    let mut joined = 0;
    for n in 0..300_000_u64 {
        let key = ["a", "b", "c"][(n % 3) as usize];
        let now = at(n * 999_983 % 7_919 + n * 8_000);
        let bounded = check(&store, &policy, key, now);
        let unbounded = check(&exact, &policy, key, now);
        assert!(bounded.remaining() <= unbounded.remaining(), "lost units at {n}");
        joined += u64::from(bounded.is_degraded());
        assert!(store.stats().bytes <= max_bytes);
    }
    assert!(joined > 0, "the bound was never reached");
    assert_eq!(store.stats().joined, joined);
}

#[test]
fn expired_keys_are_evicted_as_new_keys_arrive() {
    let store = store(50_000, 64 << 20, AtCapacity::Deny);
    let policy = policy("5/1s", "sliding_log");
    // A million keys, with ten thousand in each window.
    for n in 0..1_000_000_u64 {
        let decision = check(&store, &policy, &format!("key {n}"), at(n * 100));
        assert!(decision.is_allowed() && !decision.is_degraded(), "no room for key {n}");
    }
    let stats = store.stats();
    assert!(stats.evicted > 900_000, "{stats:?}");
    assert!(stats.keys < 50_000, "{stats:?}");
}

#[test]
fn a_key_with_units_in_use_is_never_evicted() {
    for algorithm in ["sliding_log", "sliding_counter", "sliding_buckets:10", "gcra"] {
        let store = store(100, 1 << 20, AtCapacity::Shared);
        let policy = policy("10/1m", algorithm);
        let names: Vec<_> = (0..100).map(|n| format!("in use {n}")).collect();
        for name in &names {
            let decision = store.decide(Op::Charge, &policy, &Key::new(name).unwrap(), Cost::new(10).unwrap(), at(0));
            assert!(!decision.is_degraded());
        }
        // Thousands of other keys arrive before any unit is free again.
        for n in 0..5_000 {
            let _ = check(&store, &policy, &format!("new {n}"), at(1_000_000));
        }
        for name in &names {
            let decision = check(&store, &policy, name, at(1_000_000));
            assert_eq!((decision.reason(), decision.is_degraded()), (Reason::Limited, false), "{algorithm} {name}");
        }
    }
}

#[test]
fn overflow_keys_that_share_are_limited_more_and_never_less() {
    let store = store(1, 1 << 20, AtCapacity::Shared);
    for algorithm in ["sliding_log", "sliding_counter", "sliding_buckets:10", "fixed_window", "gcra"] {
        let policy = Policy::new(algorithm, ["10/1m".parse().unwrap()]).unwrap();
        let policy = policy.with_algorithm(algorithm.parse().unwrap());
        let _ = check(&store, &policy, "first", at(0));
        let mut admitted = [0; 50];
        for round in 0..20 {
            for (n, admitted) in admitted.iter_mut().enumerate() {
                let decision = check(&store, &policy, &format!("other {n}"), at(round));
                assert!(decision.is_degraded());
                *admitted += u64::from(decision.is_allowed());
            }
        }
        assert!(admitted.iter().all(|units| *units <= 10), "{algorithm}: {admitted:?}");
        assert!(admitted.iter().sum::<u64>() >= 10, "{algorithm}: too few requests were admitted");
    }
}

#[test]
fn a_key_that_shared_keeps_its_units_when_there_is_room() {
    for algorithm in ["sliding_log", "sliding_counter", "sliding_buckets:10", "gcra"] {
        let store = store(1, 1 << 20, AtCapacity::Shared);
        let policy = Policy::new("p", ["10/1h".parse().unwrap(), "7/1m".parse().unwrap()]).unwrap();
        let policy = policy.with_algorithm(algorithm.parse().unwrap());
        let _ = check(&store, &policy, "first", at(0));
        for _ in 0..7 {
            let decision = check(&store, &policy, "second", at(0));
            assert!(decision.is_allowed() && decision.is_degraded());
        }
        assert!(store.reset(&policy, &Key::new("first").unwrap()));
        let decision = check(&store, &policy, "second", at(1));
        assert_eq!((decision.reason(), decision.is_degraded()), (Reason::Limited, true), "{algorithm}");
        // The minute is over, and three of the ten units of the hour are left.
        let later = at(121_000_000);
        let admitted = (0..10).filter(|_| check(&store, &policy, "second", later).is_allowed()).count();
        assert!((1..=3).contains(&admitted), "{algorithm}: {admitted}");
    }
}

#[test]
fn new_keys_without_room_are_denied_or_admitted_uncounted() {
    let policy = policy("10/1m", "sliding_log");
    let denying = store(1, 1 << 20, AtCapacity::Deny);
    let _ = check(&denying, &policy, "first", at(0));
    let decision = check(&denying, &policy, "second", at(0));
    assert_eq!((decision.is_allowed(), decision.reason()), (false, Reason::StoreUnavailable));
    assert_eq!((decision.retry_after(), decision.charged_at()), (None, None));
    assert!(decision.is_degraded());

    let admitting = store(1, 1 << 20, AtCapacity::Admit);
    let _ = check(&admitting, &policy, "first", at(0));
    for _ in 0..50 {
        let decision = check(&admitting, &policy, "second", at(0));
        assert!(decision.is_allowed() && decision.is_degraded());
        assert_eq!(decision.charged_at(), None);
    }
    assert_eq!(admitting.stats().refused, 50);
    // A cost above the limit is impossible in any case.
    let eleven = Cost::new(11).unwrap();
    let decision = admitting.decide(Op::Check, &policy, &Key::new("second").unwrap(), eleven, at(0));
    assert_eq!(decision.reason(), Reason::Impossible);
}

#[test]
fn known_keys_are_decided_exactly_while_new_keys_find_no_room() {
    for at_capacity in [AtCapacity::Shared, AtCapacity::Deny, AtCapacity::Admit] {
        let store = store(1, 1 << 20, at_capacity);
        let policy = policy("3/1s", "sliding_log");
        for n in 0..3 {
            let decision = check(&store, &policy, "known", at(n * 1000));
            assert_eq!((decision.remaining(), decision.is_degraded()), (2 - n, false));
            let _ = check(&store, &policy, "unknown", at(n * 1000));
        }
        let decision = check(&store, &policy, "known", at(3000));
        assert_eq!(decision.retry_after(), Some(Duration::from_micros(997_000)));
    }
}

#[test]
fn a_check_of_several_requests_without_room_for_one_charges_none() {
    let store = store(1, 1 << 20, AtCapacity::Deny);
    let policy = Policy::new("p", ["10/1m".parse().unwrap()]).unwrap().with_algorithm(Algorithm::SlidingCounter);
    let (known, unknown) = (Key::new("known").unwrap(), Key::new("unknown").unwrap());
    let _ = store.decide(Op::Check, &policy, &known, Cost::ONE, at(0));
    let spends = [&known, &unknown].map(|key| tidegate::Spend { policy: &policy, key, cost: Cost::ONE });
    let decisions = store.decide_all(Op::Check, &spends, at(0)).unwrap();
    assert_eq!(decisions.overall.reason(), Reason::StoreUnavailable);
    assert_eq!(decisions.overall.part(), 1);
    let left = store.decide(Op::Peek, &policy, &known, Cost::ONE, at(0)).remaining();
    assert_eq!((left, store.stats().keys), (9, 1));
}

#[test]
fn a_store_that_keeps_expired_states_evicts_none() {
    let policy = policy("1/1s", "sliding_log");
    let evicted = |builder: tidegate::MemoryStoreBuilder| {
        let store = builder.shards(1).build().unwrap();
        for i in 0..5_000_u64 {
            assert!(check(&store, &policy, &i.to_string(), at(i * 1_000_000)).is_allowed());
        }
        // At the time of the first key, its unit is in use.
        let again = store.decide(Op::Peek, &policy, &Key::new("0").unwrap(), Cost::ONE, at(0));
        (store.stats().evicted, again.is_allowed())
    };
    assert_eq!(evicted(MemoryStore::builder().keep_expired()), (0, false));
    let (count, _) = evicted(MemoryStore::builder());
    assert!(count > 4_000, "{count}");
}

const ALGORITHMS: [&str; 5] = ["sliding_log", "sliding_counter", "sliding_buckets:10", "fixed_window", "gcra"];

fn spend(store: &MemoryStore, op: Op, policy: &Policy, costs: &[(&str, u64)], now: Timestamp) -> Decisions {
    let keys: Vec<_> = costs.iter().map(|(key, cost)| (Key::new(key).unwrap(), Cost::new(*cost).unwrap())).collect();
    let spends: Vec<_> = keys.iter().map(|(key, cost)| Spend { policy, key, cost: *cost }).collect();
    store.decide_all(op, &spends, now).unwrap()
}

fn used(store: &MemoryStore, policy: &Policy, key: &str, now: Timestamp) -> u64 {
    store.decide(Op::Peek, policy, &Key::new(key).unwrap(), Cost::ONE, now).used()
}

/// A full store in which "a" and the key that is returned use one overflow state, with `units` in use since `at(0)`.
fn sharing(policy: &Policy, units: u64) -> (MemoryStore, String) {
    let store = MemoryStore::builder().max_keys(1).shards(1).build().unwrap();
    let _ = check(&store, policy, "first", at(0));
    let _ = spend(&store, Op::Charge, policy, &[("a", units)], at(0));
    let other = (0..10_000).map(|n| format!("b{n}")).find(|key| used(&store, policy, key, at(0)) == units);
    (store, other.unwrap())
}

#[test]
fn requests_of_one_decision_that_share_an_overflow_state_are_all_counted() {
    // In the next aligned minute, but before the state has expired.
    let later = at(45_000_000);
    for algorithm in ALGORITHMS {
        let policy = policy("10/1m", algorithm);
        let exact = MemoryStore::default();
        for (units, now) in [(2, at(0)), (3, later), (4, later)] {
            let _ = spend(&exact, Op::Charge, &policy, &[("a", units)], now);
        }
        for op in [Op::Check, Op::Charge] {
            let (store, b) = sharing(&policy, 2);
            let decisions = spend(&store, op, &policy, &[("a", 3), (&b, 4)], later);
            let expected = used(&exact, &policy, "a", later);
            let Some(decision) = decisions.parts.last().filter(|_| expected <= 10) else {
                continue;
            };
            assert!(decisions.overall.is_allowed(), "{algorithm}");
            assert_eq!((decision.used(), used(&store, &policy, "a", later)), (expected, expected), "{algorithm}");
        }
    }
}

#[test]
fn requests_of_one_decision_that_share_an_overflow_state_must_fit_together() {
    for algorithm in ALGORITHMS {
        let policy = policy("10/1m", algorithm);
        let (store, b) = sharing(&policy, 3);
        let limited = spend(&store, Op::Check, &policy, &[("a", 4), (&b, 4)], at(1));
        assert_eq!((limited.overall.reason(), limited.overall.part()), (Reason::Limited, 1), "{algorithm}");
        let wait = limited.overall.retry_after().unwrap();
        assert!(wait > Duration::ZERO, "{algorithm}");
        // While they share a state, no wait is long enough.
        let never = spend(&store, Op::Check, &policy, &[("a", 6), (&b, 5)], at(1));
        assert_eq!((never.overall.reason(), never.overall.retry_after()), (Reason::StoreUnavailable, None));
        assert_eq!(used(&store, &policy, "a", at(1)), 3, "{algorithm}: a denial charges nothing");
        let then = at(1).after(wait);
        assert!(spend(&store, Op::Peek, &policy, &[("a", 4), (&b, 4)], then).overall.is_allowed(), "{algorithm}");
        assert!(spend(&store, Op::Check, &policy, &[("a", 4), (&b, 4)], then).overall.is_allowed(), "{algorithm}");
    }
}

#[test]
fn peeks_of_keys_that_share_an_overflow_state_agree_after_the_clock_went_back() {
    for algorithm in ALGORITHMS {
        let policy = policy("10/1m", algorithm);
        let (store, b) = sharing(&policy, 3);
        let before = Timestamp::from_micros(START - 3_600_000_000);
        let peeked = spend(&store, Op::Peek, &policy, &[("a", 1), (&b, 1)], before);
        let resets: Vec<_> = peeked.parts.iter().map(|part| (part.used(), part.reset_after())).collect();
        assert_eq!(resets[0], resets[1], "{algorithm}");
        assert!(resets[0].1 <= Duration::from_secs(120), "{algorithm}: {resets:?}");
        assert_eq!(used(&store, &policy, "a", at(0)), 3, "{algorithm}: a peek changes nothing");
    }
}

#[test]
fn a_charge_of_several_requests_without_room_for_one_charges_none() {
    let store = store(1, 1 << 20, AtCapacity::Deny);
    let policy = policy("10/1m", "sliding_counter");
    let _ = check(&store, &policy, "known", at(0));
    for costs in [[("known", 1), ("new", 1)], [("new", 1), ("known", 1)], [("known", 11), ("new", 1)]] {
        let decisions = spend(&store, Op::Charge, &policy, &costs, at(0));
        assert_eq!((decisions.overall.reason(), decisions.overall.charged_at()), (Reason::StoreUnavailable, None));
        assert_eq!(used(&store, &policy, "known", at(0)), 1, "{costs:?}");
    }
}

#[test]
fn expired_overflow_states_free_their_memory_as_new_keys_arrive() {
    let year = 365 * 86_400 * 1_000_000;
    // Keys of another policy never use the overflow states of this one.
    let [early, late] = ["early", "late"]
        .map(|name| Policy::new(name, ["5/1m".parse().unwrap()]).unwrap().with_algorithm(Algorithm::FixedWindow));
    for written in [0, year] {
        let bytes = |overflowing: u64| {
            let store = MemoryStore::builder().max_keys(10).shards(1).build().unwrap();
            for n in 0..10 + overflowing {
                let _ = check(&store, &early, &format!("early {n}"), at(written));
            }
            // Each of these keys arrives when those before it have expired, so the store is not full.
            for n in 1..200 {
                let _ = check(&store, &late, &format!("late {n}"), at(n * 200_000_000));
            }
            store.stats().bytes
        };
        assert_eq!(bytes(200), bytes(0), "written at {written}");
    }
}

#[test]
fn states_from_a_clock_far_ahead_survive_a_peek_and_a_store_that_keeps_expired_states() {
    let (year, policy) = (365 * 86_400 * 1_000_000, policy("5/1m", "fixed_window"));
    let builder = || MemoryStore::builder().max_keys(10).shards(1);
    for (store, op) in [(builder(), Op::Peek), (builder().keep_expired(), Op::Check)] {
        let store = store.build().unwrap();
        let names: Vec<_> = (0..10).map(|n| format!("ahead {n}")).collect();
        for name in &names {
            let _ = check(&store, &policy, name, at(year));
        }
        let _ = store.decide(op, &policy, &Key::new("new").unwrap(), Cost::ONE, at(0));
        for name in &names {
            assert_eq!(used(&store, &policy, name, at(year)), 1, "{op:?}");
        }
    }
}
