//! Floods of keys, windows and limits supplied by callers do not change the decisions of a named policy.

#![expect(clippy::cast_possible_truncation, reason = "small numbers")]

use std::collections::HashMap;

use tidegate::{
    Algorithm, AtCapacity, Cost, Decision, Key, MemoryStore, MemoryStoreBuilder, Op, Override, Policy, Reason, Share,
    Spend, Timestamp,
};

const START: u64 = 1_745_000_000_000_000;
const ALL: [AtCapacity; 3] = [AtCapacity::Shared, AtCapacity::Deny, AtCapacity::Admit];

/// Makes the limits of the n-th request.
type MakePolicy = fn(u64) -> Policy;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(START + micros)
}

fn build(builder: MemoryStoreBuilder) -> MemoryStore {
    builder.build().unwrap()
}

fn named(name: &str, limit: &str) -> Policy {
    Policy::new(name, [limit.parse().unwrap()]).unwrap()
}

/// Limits supplied by a caller, with a unique window.
fn supplied(n: u64) -> Policy {
    Policy::unnamed([format!("1/{}ms", 3_600_000 + n).parse().unwrap()]).unwrap()
}

/// Limits supplied through CL.THROTTLE: each key has one state for all windows.
fn throttle(n: u64) -> Policy {
    let limit = format!("5/{}ms", 3_600_000 + n);
    named("CL.THROTTLE", &limit).with_algorithm(Algorithm::Gcra(None)).supplied_by_caller()
}

fn decide(store: &MemoryStore, op: Op, policy: &Policy, key: &str, now: Timestamp) -> Decision {
    store.decide(op, policy, &Key::new(key).unwrap(), Cost::ONE, now)
}

fn admitted(store: &MemoryStore, policy: &Policy, key: &str, times: usize) -> usize {
    (0..times).filter(|_| decide(store, Op::Check, policy, key, at(1)).is_allowed()).count()
}

#[test]
fn ninety_thousand_windows_of_callers_do_not_change_a_named_policy() {
    for at_capacity in ALL {
        let store = build(MemoryStore::builder().at_capacity(at_capacity));
        for n in 0..90_000 {
            let _ = decide(&store, Op::Check, &supplied(n), &format!("k{n}"), at(0));
        }
        assert!(store.stats().caller_refused_layouts > 0, "the bound on shapes was never met");
        assert_eq!(admitted(&store, &named("p", "5/1h"), "fresh", 200), 5, "{at_capacity:?}");
    }
}

#[test]
fn every_operation_of_a_named_policy_is_exact_after_callers_used_up_their_share() {
    for (at_capacity, flood) in
        ALL.into_iter().flat_map(|choice| [(choice, supplied as MakePolicy), (choice, throttle)])
    {
        let store = build(MemoryStore::builder().shards(1).at_capacity(at_capacity));
        let policy = named("p", "5/1h");
        assert_eq!(admitted(&store, &policy, "known", 2), 2);
        for n in 0..3_000 {
            let _ = decide(&store, Op::Check, &flood(n), &format!("k{n}"), at(0));
        }
        let stats = store.stats();
        assert!(stats.caller_refused_layouts > 1_000 && stats.refused == stats.caller_refused, "{stats:?}");
        assert_eq!(admitted(&store, &policy, "known", 200), 3);
        assert_eq!(admitted(&store, &policy, "fresh", 200), 5);
        assert_eq!(admitted(&store, &named("other", "3/7m"), "fresh", 200), 3, "in a new shape");
        let charged = decide(&store, Op::Charge, &policy, "charged", at(1));
        assert!(charged.is_allowed() && !charged.is_degraded() && charged.used() == 1);
        let refund =
            store.refund(&policy, &Key::new("charged").unwrap(), Cost::ONE, charged.charged_at().unwrap(), at(1));
        assert!(refund.is_returned() && refund.remaining() == 5);

        let keys = [Key::new("one").unwrap(), Key::new("two").unwrap()];
        let together = || {
            let spends = keys.each_ref().map(|key| Spend { policy: &policy, key, cost: Cost::ONE });
            store.decide_all(Op::Check, &spends, at(1)).unwrap().overall.is_allowed()
        };
        assert_eq!((0..200).filter(|_| together()).count(), 5);

        // A changed limit for a known key.
        assert_eq!(admitted(&store, &named("p", "9/2h"), "known", 200), 4);
        let by = Override::limits(Policy::unnamed(["7/3h".parse().unwrap()]).unwrap());
        store.set_override(&policy, &Key::new("special").unwrap(), by, at(1)).unwrap();
        assert_eq!(admitted(&store, &policy, "special", 200), 7);
    }
}

#[test]
fn at_capacity_decides_for_callers_with_too_many_windows() {
    for at_capacity in ALL {
        let store = build(MemoryStore::builder().shards(1).at_capacity(at_capacity));
        let mut denied = 0;
        for n in 0..3_000 {
            let decision = decide(&store, Op::Check, &supplied(n), "k", at(0));
            assert!(decision.is_allowed() || decision.reason() == Reason::StoreUnavailable);
            assert_eq!(decision.is_degraded(), decision.charged_at().is_none(), "{n}: {decision:?}");
            denied += u64::from(!decision.is_allowed());
            if decision.is_degraded() {
                let charge = decide(&store, Op::Charge, &supplied(n), "k", at(0));
                assert_eq!(
                    charge.is_allowed(),
                    at_capacity == AtCapacity::Admit,
                    "only `admit` allows an uncounted charge"
                );
            }
        }
        let stats = store.stats();
        assert_eq!(denied > 1_000, at_capacity != AtCapacity::Admit, "{at_capacity:?}: {denied}");
        assert!(stats.caller_refused > 1_000 && stats.caller_refused == stats.caller_refused_layouts, "{stats:?}");
        // Known keys and windows are decided as before.
        assert!(!decide(&store, Op::Check, &supplied(3), "k", at(0)).is_allowed());
        assert!(decide(&store, Op::Check, &supplied(3), "another", at(0)).charged_at().is_some());
    }
}

#[test]
fn a_known_key_with_another_window_is_never_admitted_uncounted() {
    for at_capacity in [AtCapacity::Shared, AtCapacity::Deny] {
        let store = build(MemoryStore::builder().shards(1).at_capacity(at_capacity));
        for n in 0..3_000 {
            let _ = decide(&store, Op::Check, &throttle(n), &format!("k{n}"), at(0));
        }
        let decision = decide(&store, Op::Check, &throttle(5_000), "k7", at(0));
        assert_eq!((decision.is_allowed(), decision.reason()), (false, Reason::StoreUnavailable));
        let refund = store.refund(&throttle(5_000), &Key::new("k7").unwrap(), Cost::ONE, at(0), at(0));
        assert!(!refund.is_returned());
        assert_eq!(admitted(&store, &throttle(7), "k7", 200), 4, "its own window is not changed");
    }
}

#[test]
fn a_named_policy_is_counted_in_any_number_of_shapes() {
    let store = build(MemoryStore::builder().shards(1));
    let reloaded = |n: u64| named("p", &format!("5/{}ms", 3_600_000 + n));
    for n in 0..3_000 {
        assert_eq!(admitted(&store, &reloaded(n), &format!("k{n}"), 7), 5, "{n}");
    }
    for n in 0..3_000 {
        assert_eq!(admitted(&store, &reloaded(4_000), &format!("k{n}"), 2), 0, "{n}, read by another window");
        let charged = decide(&store, Op::Charge, &reloaded(5_000 + n), &format!("k{n}"), at(2));
        assert_eq!((charged.used(), charged.is_degraded()), (6, false), "{n}, written in another window");
    }
    for n in 0..3_000 {
        let by = Override::limits(Policy::unnamed([format!("3/{}ms", 90_000 + n).parse().unwrap()]).unwrap());
        store.set_override(&reloaded(0), &Key::new(&format!("o{n}")).unwrap(), by, at(2)).unwrap();
        assert_eq!(admitted(&store, &reloaded(0), &format!("o{n}"), 5), 3, "{n}, overridden");
    }
    // Everything is freed after all windows have passed.
    let later = at(8_000_000_000);
    for n in 0..20_000 {
        let _ = decide(&store, Op::Check, &reloaded(0), &format!("later {n}"), later);
    }
    assert!(store.stats().evicted >= 3_000);
    assert_eq!(admitted(&store, &named("last", "5/1m"), "fresh", 200), 5);
}

#[test]
fn callers_use_no_more_than_their_share_and_named_policies_keep_the_rest() {
    for (share, of_callers) in [(None, 5_000), (Some(0.1), 1_000), (Some(1.0), 10_000)] {
        let mut builder = MemoryStore::builder().max_keys(10_000).max_bytes(4 << 20);
        if let Some(share) = share {
            builder = builder.caller_share(Share::new(share).unwrap());
        }
        let store = build(builder);
        for n in 0..20_000 {
            let _ = decide(&store, Op::Check, &supplied(n % 7), &format!("k{n}"), at(0));
        }
        let stats = store.stats();
        assert_eq!((stats.caller_keys, stats.keys), (of_callers, of_callers), "{share:?}");
        assert_eq!((stats.refused, stats.caller_refused), (20_000 - of_callers as u64, 20_000 - of_callers as u64));
        assert_eq!(stats.caller_refused_layouts, 0);
        let policy = named("p", "5/1h");
        for n in of_callers..10_000 {
            let decision = decide(&store, Op::Check, &policy, &format!("user {n}"), at(0));
            assert!(decision.is_allowed() && !decision.is_degraded(), "{share:?}: no room for user {n}");
        }
        assert_eq!(store.stats().keys, 10_000);
    }
}

#[test]
fn expired_states_of_callers_make_room_for_named_policies_and_vice_versa() {
    let (policy, supplied) = (named("p", "5/1m"), Policy::unnamed(["5/1m".parse().unwrap()]).unwrap());
    for (first, second, of_callers) in [(&supplied, &policy, 0), (&policy, &supplied, 10_000)] {
        let store = build(MemoryStore::builder().max_keys(10_000).caller_share(Share::ALL));
        for n in 0..10_000 {
            let _ = decide(&store, Op::Check, first, &format!("first {n}"), at(0));
        }
        assert_eq!(store.stats().keys, 10_000);
        for n in 0..30_000 {
            let _ = decide(&store, Op::Check, second, &format!("second {n}"), at(70_000_000));
        }
        let stats = store.stats();
        assert_eq!((stats.keys, stats.caller_keys, stats.evicted), (10_000, of_callers, 10_000));
    }
}

#[test]
fn callers_use_no_more_than_their_share_of_the_bytes() {
    let max_bytes = 4 << 20;
    let store = build(MemoryStore::builder().max_bytes(max_bytes));
    let policy = Policy::unnamed(["100000/1h".parse().unwrap()]).unwrap();
    for n in 0..300_000_u64 {
        // Long logs, and many windows.
        let _ = decide(&store, Op::Check, &policy, &format!("k{}", n % 50), at(n * 7_919));
        let _ = decide(&store, Op::Check, &supplied(n), "k", at(n));
        if n % 4096 == 0 {
            let stats = store.stats();
            assert!(stats.caller_bytes <= max_bytes / 2, "{stats:?}");
        }
    }
    assert!(store.stats().caller_bytes > max_bytes / 3, "the bound was never approached");
}

/// Returns the number of users with at least one admitted request and the number of users with the full limit. No user may
/// get more.
fn admitted_users(store: &MemoryStore, policy: &Policy, users: usize) -> (usize, usize) {
    let mut counts = vec![0; users];
    for _ in 0..7 {
        for (n, count) in counts.iter_mut().enumerate() {
            *count += usize::from(decide(store, Op::Check, policy, &format!("user {n}"), at(2)).is_allowed());
        }
    }
    assert!(counts.iter().all(|count| *count <= 5), "more than the limit: {counts:?}");
    let at_least = |least: usize| counts.iter().filter(|count| **count >= least).count();
    (at_least(1), at_least(5))
}

#[test]
fn new_keys_are_limited_like_others_after_a_flood() {
    let policy = named("p", "5/1h");
    let (max_keys, users) = (100_000, 500);
    let floods: [(&str, MakePolicy); 3] = [
        ("the policy", |_| named("p", "5/1h")),
        ("another policy", |_| named("q", "9/1h")),
        ("callers", |n| supplied(n % 5)),
    ];
    for (of, flood) in floods {
        let store = build(MemoryStore::builder().max_keys(max_keys as usize));
        for n in 0..max_keys {
            let _ = decide(&store, Op::Check, &flood(n), &format!("flood {n}"), at(0));
        }
        let (first, all) = admitted_users(&store, &policy, users);
        assert_eq!(first, users, "after a flood of keys of {of}");
        assert!(all * 100 >= users * 80, "after a flood of keys of {of}: {all} of {users}");
    }
}

#[test]
fn a_flood_of_four_policies_leaves_room_for_others() {
    let store = build(MemoryStore::builder().max_keys(20_000));
    for n in 0..200_000_u64 {
        let _ = decide(&store, Op::Check, &named(&format!("flooded-{}", n % 4), "5/1h"), &format!("{n}"), at(0));
    }
    for n in 0..300 {
        let decision = decide(&store, Op::Check, &named(&format!("policy-{n}"), "5/1h"), "user", at(1));
        assert!(decision.is_allowed() && decision.charged_at().is_some(), "policy {n}: {decision:?}");
    }
}

#[test]
fn a_key_that_changes_its_overflow_state_never_gets_more_than_its_limit() {
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for algorithm in ["sliding_log", "sliding_counter", "gcra"] {
        let store = build(MemoryStore::builder().max_keys(3).shards(1));
        let policies: Vec<Policy> =
            (0..30).map(|n| named(&format!("p{n}"), "3/1s").with_algorithm(algorithm.parse().unwrap())).collect();
        // The other algorithms admit up to twice the limit.
        let max = if algorithm == "sliding_log" { 3 } else { 6 };
        let mut history: HashMap<(u64, u64), Vec<u64>> = HashMap::new();
        let (mut now, mut allowed) = (0, 0);
        for _ in 0..60_000 {
            now += next(3_000);
            let (p, k) = (next(30), next(12));
            let key = format!("{k}");
            let policy = &policies[p as usize];
            if !decide(&store, Op::Check, policy, &key, at(now)).is_allowed() {
                continue;
            }
            allowed += 1;
            let times = history.entry((p, k)).or_default();
            times.push(now);
            times.retain(|time| *time + 1_000_000 > now);
            assert!(times.len() <= max, "{algorithm}: {times:?}");
        }
        assert!(allowed > 5_000, "{algorithm}: {allowed}");
    }
}

#[test]
fn states_from_a_clock_far_ahead_expire_when_room_is_needed() {
    let store = build(MemoryStore::builder().max_keys(1_000).shards(1));
    let policy = named("p", "5/1m");
    let year = 365 * 86_400 * 1_000_000;
    for n in 0..1_000 {
        let _ = decide(&store, Op::Check, &policy, &format!("ahead {n}"), at(year));
    }
    for n in 0..1_000 {
        let _ = decide(&store, Op::Check, &policy, &format!("now {n}"), at(n));
    }
    // Nothing is evicted yet, because the units are in use for a minute.
    assert_eq!(store.stats().evicted, 0);
    for n in 0..1_000 {
        let _ = decide(&store, Op::Check, &policy, &format!("later {n}"), at(70_000_000 + n));
    }
    assert!(store.stats().evicted > 900, "{:?}", store.stats());
}

#[test]
fn a_known_key_with_another_window_is_counted_once_other_windows_have_expired() {
    for at_capacity in [AtCapacity::Shared, AtCapacity::Deny] {
        let store = build(MemoryStore::builder().shards(1).at_capacity(at_capacity));
        for n in 0..3_000 {
            let _ = decide(&store, Op::Check, &throttle(n), &format!("k{n}"), at(0));
        }
        let later = at(3 * 3_600_000_000);
        let own = decide(&store, Op::Check, &throttle(5_000), "k7", later);
        assert!(own.is_allowed() && own.charged_at().is_some(), "its state has expired: {own:?}");
        let keys = [Key::new("k8").unwrap(), Key::new("k9").unwrap()];
        let policies = [throttle(5_001), throttle(5_002)];
        let spends = [0, 1].map(|n| Spend { policy: &policies[n], key: &keys[n], cost: Cost::ONE });
        let several = store.decide_all(Op::Check, &spends, later).unwrap();
        assert!(several.overall.is_allowed() && several.overall.charged_at().is_some(), "{several:?}");
        assert!(decide(&store, Op::Check, &throttle(5_000), "k7", later).charged_at().is_some());
        let in_use = decide(&store, Op::Check, &throttle(5_003), "k7", later);
        assert!(
            in_use.charged_at().is_some() && in_use.used() == 3,
            "the states of other keys have expired: {in_use:?}"
        );
    }
}
