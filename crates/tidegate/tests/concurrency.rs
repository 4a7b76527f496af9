//! The store under a model checker, which tries the orders in which threads can use its locks and counters.
//!
//! Run it with `RUSTFLAGS="--cfg tidegate_shuttle"`, which replaces the locks and counters by those of shuttle. The rest is
//! the released code.

#![cfg(tidegate_shuttle)]

use shuttle::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
};
use tidegate::{Algorithm, AtCapacity, Cost, Key, Limit, MemoryStore, Op, Override, Policy, Spend, Timestamp};

const NOW: u64 = 1_745_000_000_000_000;

fn now() -> Timestamp {
    Timestamp::from_micros(NOW)
}

fn policy(name: &str, limit: &str, algorithm: Algorithm) -> Policy {
    Policy::new(name, [limit.parse::<Limit>().unwrap()]).unwrap().with_algorithm(algorithm)
}

fn small_store(max_keys: usize, at_capacity: AtCapacity) -> MemoryStore {
    MemoryStore::builder().max_keys(max_keys).at_capacity(at_capacity).build().unwrap()
}

/// Runs `test` in up to ten thousand systematic schedules and in ten thousand random ones.
fn in_every_order(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_dfs(test, Some(10_000));
    shuttle::check_random(test, 10_000);
}

#[test]
fn two_threads_never_share_the_last_unit() {
    in_every_order(|| {
        for algorithm in [Algorithm::SlidingCounter, Algorithm::SlidingLog] {
            let store = Arc::new(small_store(16, AtCapacity::Shared));
            let admitted = Arc::new(AtomicU64::new(0));
            let spend = || {
                let (store, admitted) = (Arc::clone(&store), Arc::clone(&admitted));
                thread::spawn(move || {
                    let policy = policy("p", "1/1m", algorithm);
                    let decision = store.decide(Op::Check, &policy, &Key::new("k").unwrap(), Cost::ONE, now());
                    admitted.fetch_add(u64::from(decision.is_allowed()), SeqCst);
                })
            };
            let threads = [spend(), spend()];
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(admitted.load(SeqCst), 1);
        }
    });
}

#[test]
fn a_decision_over_several_keys_is_atomic() {
    in_every_order(|| {
        let store = Arc::new(small_store(16, AtCapacity::Shared));
        let keys = ["a", "b", "c"];
        // The threads pass the keys in different orders, so locks in that order would deadlock.
        let together = |op: Op, order: [usize; 2]| {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                let policy = policy("p", "1/1m", Algorithm::SlidingCounter);
                let keys = order.map(|i| Key::new(keys[i]).unwrap());
                let spends = [&keys[0], &keys[1]].map(|key| Spend { policy: &policy, key, cost: Cost::ONE });
                store.decide_all(op, &spends, now()).unwrap()
            })
        };
        let (first, second) = (together(Op::Check, [0, 1]), together(Op::Check, [1, 0]));
        let seen = together(Op::Peek, [0, 1]).join().unwrap();
        let admitted = [first, second].map(|thread| thread.join().unwrap().overall.is_allowed());
        assert!(admitted[0] != admitted[1], "one of them has both units: {admitted:?}");
        let used = seen.parts.iter().map(|part| part.used()).collect::<Vec<_>>();
        assert!(used == [0, 0] || used == [1, 1], "half of a decision was seen: {used:?}");
    });
}

#[test]
fn keys_stay_within_the_maximum_in_every_order() {
    for at_capacity in [AtCapacity::Shared, AtCapacity::Deny, AtCapacity::Admit] {
        in_every_order(move || {
            let store = Arc::new(small_store(1, at_capacity));
            let arrive = |key: &'static str| {
                let store = Arc::clone(&store);
                thread::spawn(move || {
                    let policy = policy("p", "1/1m", Algorithm::SlidingCounter);
                    let _ = store.decide(Op::Check, &policy, &Key::new(key).unwrap(), Cost::ONE, now());
                    assert!(store.stats().keys <= 1);
                })
            };
            let threads = [arrive("a"), arrive("b")];
            for thread in threads {
                thread.join().unwrap();
            }
            let stats = store.stats();
            assert_eq!((stats.keys, stats.refused), (1, 1));
        });
    }
}

#[test]
fn a_reset_and_a_charge_are_atomic() {
    in_every_order(|| {
        let store = Arc::new(small_store(4, AtCapacity::Shared));
        let policy = policy("p", "2/1m", Algorithm::SlidingLog);
        let key = Key::new("k").unwrap();
        let _ = store.decide(Op::Check, &policy, &key, Cost::ONE, now());
        let charging = {
            let (store, policy) = (Arc::clone(&store), policy.clone());
            thread::spawn(move || store.decide(Op::Check, &policy, &Key::new("k").unwrap(), Cost::ONE, now()))
        };
        assert!(store.reset(&policy, &key));
        let after_reset = charging.join().unwrap().remaining() == 1;
        let left = store.decide(Op::Peek, &policy, &key, Cost::ONE, now()).remaining();
        assert_eq!(left, if after_reset { 1 } else { 2 });
        assert_eq!(store.stats().keys, usize::from(after_reset));
    });
}

#[test]
fn an_override_applies_until_it_is_removed_and_no_unit_is_lost() {
    in_every_order(|| {
        let store = Arc::new(small_store(4, AtCapacity::Shared));
        let policy = policy("p", "2/1m", Algorithm::SlidingLog);
        let spend = || {
            let (store, policy) = (Arc::clone(&store), policy.clone());
            thread::spawn(move || store.decide(Op::Check, &policy, &Key::new("k").unwrap(), Cost::ONE, now()))
        };
        let checks = [spend(), spend()];
        let key = Key::new("k").unwrap();
        assert!(store.set_override(&policy, &key, Override::ban(), now()).unwrap().is_none());
        let banned = store.decide(Op::Check, &policy, &key, Cost::ONE, now());
        assert!(!banned.is_allowed(), "admitted while banned");
        assert!(store.remove_override(&policy, &key, now()).is_some());
        let decisions = checks.map(|thread| thread.join().unwrap());
        for decision in decisions {
            assert!(decision.is_allowed() != decision.is_overridden(), "half of an override: {decision:?}");
        }
        let admitted = decisions.iter().filter(|decision| decision.is_allowed()).count();
        let left = store.decide(Op::Peek, &policy, &key, Cost::ONE, now());
        assert_eq!(left.used(), admitted as u64);
        let stats = store.stats();
        assert_eq!((stats.keys, stats.overrides), (usize::from(admitted > 0), 0));
    });
}
