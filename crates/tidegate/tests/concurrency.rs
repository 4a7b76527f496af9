//! The store under a model checker, which tries the orders in which threads can use its locks and counters.
//!
//! Run it with `RUSTFLAGS="--cfg tidegate_shuttle"`, which replaces the locks and counters by those of shuttle. The rest is
//! the released code.

#![cfg(tidegate_shuttle)]

use std::time::Duration;

use shuttle::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
};
use tidegate::{
    Algorithm, AtCapacity, Cost, Hold, Key, Limit, MemoryStore, Op, Override, Policy, ReservationId, Spend, Timestamp,
};

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

const TTL: Duration = Duration::from_secs(10);

fn hold(store: &MemoryStore, policy: &Policy, units: u64) -> ReservationId {
    let (key, cost) = (Key::new("k").unwrap(), Cost::new(units).unwrap());
    store.reserve(policy, &key, cost, Hold::new(TTL), now()).unwrap().id.unwrap()
}

fn used(store: &MemoryStore, policy: &Policy, now: Timestamp) -> u64 {
    store.decide(Op::Peek, policy, &Key::new("k").unwrap(), Cost::ONE, now).used()
}

#[test]
fn a_hold_is_settled_once_in_every_order() {
    in_every_order(|| {
        for limits in ["100/1m", "100/inflight"] {
            let store = Arc::new(small_store(4, AtCapacity::Shared));
            let policy = policy("p", limits, Algorithm::SlidingLog);
            let id = hold(&store, &policy, 50);
            let commit = |actual: u64| {
                let (store, policy, id) = (Arc::clone(&store), policy.clone(), id.clone());
                thread::spawn(move || store.commit(&id, &[actual], &policy, now()).unwrap().known.then_some(actual))
            };
            let commits = [commit(30), commit(70)];
            let here = store.commit(&id, &[0], &policy, now()).unwrap().known.then_some(0);
            let [one, other] = commits.map(|thread| thread.join().unwrap());
            let settled: Vec<u64> = [one, other, here].into_iter().flatten().collect();
            assert_eq!(settled.len(), 1, "settled by {settled:?}");
            let expected = if limits == "100/1m" { settled[0] } else { 0 };
            assert_eq!(used(&store, &policy, now()), expected);
        }
    });
}

#[test]
fn a_hold_is_committed_or_ends_while_others_check() {
    in_every_order(|| {
        let store = Arc::new(small_store(4, AtCapacity::Shared));
        let policy = policy("p", "60/1m", Algorithm::SlidingLog);
        let id = hold(&store, &policy, 50);
        let end = now().after(TTL);
        let spawn = |with: fn(&MemoryStore, &Policy, &ReservationId, Timestamp) -> bool, time: Timestamp| {
            let (store, policy, id) = (Arc::clone(&store), policy.clone(), id.clone());
            thread::spawn(move || with(&store, &policy, &id, time))
        };
        let commit = |store: &MemoryStore, policy: &Policy, id: &ReservationId, time| {
            store.commit(id, &[20], policy, time).unwrap().known
        };
        let check = |store: &MemoryStore, policy: &Policy, _: &ReservationId, time| {
            let (key, cost) = (Key::new("k").unwrap(), Cost::new(40).unwrap());
            store.decide(Op::Check, policy, &key, cost, time).is_allowed()
        };
        // The commit is a microsecond before the end. The checks see the hold end.
        let commit = spawn(commit, now().after(TTL - Duration::from_micros(1)));
        let checks = [spawn(check, end), spawn(check, end)];
        let committed = commit.join().unwrap();
        let admitted = checks.map(|thread| thread.join().unwrap()).into_iter().filter(|admitted| *admitted).count();
        assert_eq!(admitted, 1, "40 of 60 units are left after a commit of 20, and 60 after the end");
        assert_eq!(used(&store, &policy, end), 40 + if committed { 20 } else { 0 });
    });
}

#[test]
fn open_holds_never_exceed_the_limit_while_they_are_released_and_renewed() {
    in_every_order(|| {
        let store = Arc::new(small_store(4, AtCapacity::Shared));
        let policy = policy("p", "2/inflight", Algorithm::SlidingLog);
        let (open, first, second) = (Arc::new(AtomicU64::new(2)), hold(&store, &policy, 1), hold(&store, &policy, 1));
        let worker = |id: Option<ReservationId>| {
            let (store, policy, open) = (Arc::clone(&store), policy.clone(), Arc::clone(&open));
            thread::spawn(move || {
                if let Some(id) = id {
                    assert!(store.renew(&id, TTL, &policy, now()).unwrap().known);
                    // It is no longer counted before it is released, so the count is never too small.
                    open.fetch_sub(1, SeqCst);
                    assert!(store.commit(&id, &[0], &policy, now()).unwrap().known);
                }
                let key = Key::new("k").unwrap();
                if store.reserve(&policy, &key, Cost::ONE, Hold::new(TTL), now()).unwrap().id.is_some() {
                    assert!(open.fetch_add(1, SeqCst) < 2, "more than two holds are open");
                }
            })
        };
        for thread in [worker(Some(first)), worker(Some(second)), worker(None)] {
            thread.join().unwrap();
        }
        assert_eq!(used(&store, &policy, now()), open.load(SeqCst));
        assert_eq!(open.load(SeqCst), 2);
    });
}

#[test]
fn a_hold_of_several_requests_is_settled_as_one_in_every_order() {
    in_every_order(|| {
        let store = Arc::new(small_store(16, AtCapacity::Shared));
        let policy = policy("p", "10/1m", Algorithm::SlidingLog);
        let keys = ["a", "b"].map(|key| Key::new(key).unwrap());
        let reserve = |order: [usize; 2]| {
            let spends = order.map(|i| Spend { policy: &policy, key: &keys[i], cost: Cost::new(4).unwrap() });
            store.reserve_all(&spends, Hold::new(TTL), now()).unwrap().id.unwrap()
        };
        // The requests are in different orders, so locks in that order would deadlock.
        let ids = [reserve([0, 1]), reserve([1, 0])];
        let commit = |id: &ReservationId, actual: u64| {
            let (store, policy, id) = (Arc::clone(&store), policy.clone(), id.clone());
            thread::spawn(move || store.commit(&id, &[actual], &policy, now()).unwrap().known)
        };
        let commits = [commit(&ids[0], 1), commit(&ids[1], 2), commit(&ids[0], 1)];
        let known = commits.map(|thread| thread.join().unwrap());
        assert!(known[1] && known[0] != known[2], "{known:?}");
        for key in &keys {
            assert_eq!(store.decide(Op::Peek, &policy, key, Cost::ONE, now()).used(), 3);
        }
    });
}
