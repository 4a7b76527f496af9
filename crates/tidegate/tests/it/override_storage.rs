//! How the store keeps overrides: set, replace, list and remove them, their maximum number, and no effect on other keys.

use tidegate::{AtCapacity, MemoryStore, Override, OverrideError, OverrideRule, Policy, Reason, Timestamp};

use crate::overrides::{SECOND, at, check, key, policy};

fn set(store: &MemoryStore, policy: &Policy, name: &str, by: Override, now: Timestamp) -> Option<Override> {
    store.set_override(policy, &key(name), by, now).unwrap()
}

#[test]
fn set_and_remove_return_the_previous_override() {
    let (store, policy) = (MemoryStore::default(), policy(&["3/1m"], "sliding_log"));
    let noted = Override::ban().with_note("abuse").unwrap();
    assert!(set(&store, &policy, "k", noted, at(0)).is_none());
    let old = set(&store, &policy, "k", Override::exempt().until(at(SECOND)), at(1)).unwrap();
    assert_eq!((matches!(old.rule(), OverrideRule::Ban), old.note()), (true, "abuse"));
    let shown = store.override_of(&policy, &key("k"), at(2)).unwrap();
    assert_eq!((shown.key, shown.since, shown.r#override.end()), (key("k"), at(1), Some(at(SECOND))));
    assert!(store.override_of(&policy, &key("k"), at(SECOND)).is_none(), "the override has ended");
    assert!(store.remove_override(&policy, &key("k"), at(SECOND)).is_none(), "the override has ended");
    assert_eq!(store.stats().overrides, 0);
}

#[test]
fn the_list_has_the_active_overrides_of_its_policy() {
    let (store, own) = (MemoryStore::default(), policy(&["3/1m"], "sliding_log"));
    let other = Policy::new("other", ["3/1m".parse().unwrap()]).unwrap();
    for (name, policy, by) in [
        ("b", &own, Override::ban()),
        ("c", &own, Override::exempt().until(at(SECOND))),
        ("a", &own, Override::ban().until(at(2 * SECOND))),
        ("d", &other, Override::ban()),
    ] {
        set(&store, policy, name, by, at(0));
    }
    let listed = |now| store.overrides(&own, now).into_iter().map(|shown| shown.key).collect::<Vec<_>>();
    assert_eq!(listed(at(0)), ["a", "b", "c"].map(key));
    assert_eq!(listed(at(SECOND)), ["a", "b"].map(key));
    // A policy is identified by its name.
    assert_eq!(store.overrides(&policy(&["9/1h"], "gcra"), at(2 * SECOND)).len(), 1);
}

#[test]
fn ended_overrides_do_not_count_towards_the_maximum() {
    let store = MemoryStore::builder().max_overrides(2).build().unwrap();
    let policy = policy(&["3/1m"], "sliding_log");
    set(&store, &policy, "a", Override::ban(), at(0));
    set(&store, &policy, "b", Override::ban().until(at(SECOND)), at(0));
    let third = |now| store.set_override(&policy, &key("c"), Override::ban(), now);
    assert!(matches!(third(at(0)), Err(OverrideError::TooMany { max: 2 })));
    assert!(check(&store, &policy, "c", at(0)).is_allowed(), "a rejected override has no effect");
    assert!(set(&store, &policy, "a", Override::exempt(), at(0)).is_some(), "an override can be replaced");
    assert!(third(at(SECOND)).unwrap().is_none());
    assert_eq!(store.stats().overrides, 2);
    store.remove_override(&policy, &key("a"), at(SECOND));
    set(&store, &policy, "d", Override::ban(), at(SECOND));
}

#[test]
fn an_override_needs_a_named_policy_and_a_later_end() {
    let store = MemoryStore::default();
    let unnamed = Policy::unnamed(["3/1m".parse().unwrap()]).unwrap();
    let set = |policy: &Policy, by: Override| store.set_override(policy, &key("k"), by, at(5));
    assert!(matches!(set(&unnamed, Override::ban()), Err(OverrideError::Unnamed)));
    let named = policy(&["3/1m"], "sliding_log");
    assert!(matches!(set(&named, Override::ban().until(at(5))), Err(OverrideError::Over)));
    assert!(set(&named, Override::ban().until(at(6))).is_ok());
    let in_flight = Policy::new("jobs", ["4/inflight".parse().unwrap()]).unwrap();
    let counts_holds = || Override::limits(in_flight.clone());
    assert!(matches!(set(&named, counts_holds()), Err(OverrideError::InFlight { max: 4 })));
    assert!(set(&in_flight, counts_holds()).is_ok());
    assert!(matches!(Override::ban().with_note(&"x".repeat(257)), Err(OverrideError::Note { len: 257 })));
}

#[test]
fn overrides_do_not_change_the_decisions_of_other_keys() {
    for algorithm in ["sliding_log", "sliding_counter", "sliding_buckets:10", "fixed_window", "gcra"] {
        let policy = policy(&["3/1m", "5/1h"], algorithm);
        let store = || MemoryStore::builder().shards(1).build().unwrap();
        let (with, without) = (store(), store());
        let decide = |store: &MemoryStore, name: &str, now| {
            let decision = check(store, &policy, name, at(now));
            (decision, store.inspect(&policy, &key(name), at(now)))
        };
        for n in 0..300 {
            let (name, now) = (format!("plain {}", n % 30), n * SECOND);
            if n % 3 == 0 {
                let which = usize::try_from(n % 9 / 3).unwrap();
                let by = [Override::ban(), Override::exempt(), Override::limits(policy.clone())][which].clone();
                set(&with, &policy, &format!("other {}", n % 40), by.until(at(now + 50 * SECOND)), at(now));
            }
            let _ = check(&with, &policy, &format!("other {}", n % 40), at(now));
            assert_eq!(decide(&with, &name, now), decide(&without, &name, now), "{algorithm}, step {n}");
        }
    }
}

#[test]
fn an_overridden_key_has_its_own_state_in_a_full_store() {
    for at_capacity in [AtCapacity::Shared, AtCapacity::Deny, AtCapacity::Admit] {
        let store = MemoryStore::builder().max_keys(1).shards(1).at_capacity(at_capacity).build().unwrap();
        let own = policy(&["3/1m"], "sliding_log");
        assert!(check(&store, &own, "first", at(0)).is_allowed());
        assert!(check(&store, &own, "second", at(0)).is_degraded());
        let wide = Override::limits(policy(&["2/1m"], "sliding_log")).until(at(SECOND));
        set(&store, &own, "k", wide, at(0));
        for remaining in [1, 0] {
            let decision = check(&store, &own, "k", at(0));
            assert_eq!((decision.remaining(), decision.is_degraded()), (remaining, false), "{at_capacity:?}");
        }
        assert_eq!(check(&store, &own, "k", at(0)).reason(), Reason::Limited);
        assert_eq!(store.stats().keys, 1, "it does not count towards the maximum");
        // The key keeps its state when the override ends, although the store is full.
        let ended = check(&store, &own, "k", at(SECOND));
        assert_eq!((ended.used(), ended.is_degraded(), store.stats().keys), (3, false, 2), "{at_capacity:?}");
    }
}

#[test]
fn eviction_never_removes_an_active_override() {
    let store = MemoryStore::builder().max_keys(64).shards(1).build().unwrap();
    let policy = policy(&["3/1s"], "sliding_log");
    assert!(check(&store, &policy, "mallory", at(0)).is_allowed());
    set(&store, &policy, "mallory", Override::ban(), at(0));
    set(&store, &policy, "trudy", Override::ban().until(at(20_000 * SECOND)), at(0));
    for n in 0..10_000 {
        let _ = check(&store, &policy, &format!("key {n}"), at(n * SECOND));
    }
    assert!(store.stats().evicted > 9_000);
    for name in ["mallory", "trudy"] {
        assert!(!check(&store, &policy, name, at(10_000 * SECOND)).is_allowed(), "{name}");
    }
}

#[test]
fn the_bytes_of_overrides_are_counted_and_freed() {
    let store = MemoryStore::builder().shards(1).build().unwrap();
    let policy = policy(&["3/1m"], "sliding_log");
    let empty = store.stats().bytes;
    let names: Vec<String> = (0..1000).map(|n| format!("{n:0>500}")).collect();
    for name in &names {
        let by = Override::limits(policy.clone()).with_note(&"x".repeat(200)).unwrap();
        set(&store, &policy, name, by, at(0));
    }
    let full = store.stats().bytes;
    assert!(full > empty + 700 * 1000, "keys and notes are counted: {full}");
    for name in &names {
        assert!(store.remove_override(&policy, &key(name), at(0)).is_some());
    }
    // The map keeps its capacity.
    assert!(store.stats().bytes < empty + 400 * 1000, "{}", store.stats().bytes);
    assert_eq!(store.stats().overrides, 0);
}

#[test]
fn units_charged_under_a_shorter_window_are_kept_while_the_policy_counts_them() {
    let policy = policy(&["1/1m"], "sliding_log");
    let other = Policy::unnamed(["3/2s".parse().unwrap()]).unwrap();
    for removed in [false, true] {
        let store = MemoryStore::builder().shards(1).build().unwrap();
        set(&store, &policy, "a", Override::limits(other.clone()).until(at(SECOND)), at(0));
        for _ in 0..3 {
            assert!(check(&store, &policy, "a", at(0)).is_allowed());
        }
        if removed {
            assert!(store.remove_override(&policy, &key("a"), at(1)).is_some());
        }
        // New keys evict expired states.
        let evict = |now: u64| {
            for i in 0..100 {
                let _ = check(&store, &policy, &format!("{now} {i}"), at(now));
            }
        };
        evict(SECOND);
        assert!(!check(&store, &policy, "a", at(SECOND)).is_allowed());
        evict(30 * SECOND);
        assert!(
            !check(&store, &policy, "a", at(60 * SECOND - 1)).is_allowed(),
            "one microsecond before the retry time"
        );
        let evicted = store.stats().evicted;
        evict(121 * SECOND);
        evict(122 * SECOND);
        assert!(store.stats().evicted > evicted + 100, "the state expires like every other");
        assert!(store.inspect(&policy, &key("a"), at(122 * SECOND)).is_none());
    }
}

#[test]
fn ended_overrides_make_room_for_new_keys() {
    let policy = policy(&["5/1s"], "sliding_log");
    let store = MemoryStore::builder().shards(1).max_keys(10).max_bytes(1 << 16).build().unwrap();
    for i in 0..200 {
        set(&store, &policy, &format!("banned {i}"), Override::ban().until(at(SECOND)), at(0));
    }
    let before = store.stats().bytes;
    for i in 0..20 {
        let _ = check(&store, &policy, &format!("new {i}"), at(5 * SECOND));
    }
    let stats = store.stats();
    assert_eq!(stats.overrides, 0, "ended overrides are evicted without a request for their keys");
    assert!(stats.bytes < before, "{} of {before}", stats.bytes);
}
