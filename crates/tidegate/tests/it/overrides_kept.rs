//! Overrides as they are kept: set, replaced, listed and lifted, how many there may be, and what they do to other keys.

use tidegate::{AtCapacity, MemoryStore, Override, OverrideError, OverrideRule, Policy, Reason, Timestamp};

use crate::overrides::{SECOND, at, check, key, policy};

fn set(store: &MemoryStore, policy: &Policy, who: &str, by: Override, now: Timestamp) -> Option<Override> {
    store.set_override(policy, &key(who), by, now).unwrap()
}

#[test]
fn set_tells_what_it_replaces_and_lift_what_it_removes() {
    let (store, policy) = (MemoryStore::default(), policy(&["3/1m"], "sliding_log"));
    let noted = Override::ban().with_note("abuse").unwrap();
    assert!(set(&store, &policy, "k", noted, at(0)).is_none());
    let old = set(&store, &policy, "k", Override::exempt().until(at(SECOND)), at(1)).unwrap();
    assert_eq!((matches!(old.rule(), OverrideRule::Ban), old.note()), (true, "abuse"));
    let shown = store.override_of(&policy, &key("k"), at(2)).unwrap();
    assert_eq!((shown.key, shown.since, shown.by.end()), (key("k"), at(1), Some(at(SECOND))));
    assert!(store.override_of(&policy, &key("k"), at(SECOND)).is_none(), "it is over");
    assert!(store.remove_override(&policy, &key("k"), at(SECOND)).is_none(), "it is over");
    assert_eq!(store.stats().overrides, 0);
}

#[test]
fn a_list_has_the_overrides_of_its_policy_and_none_that_ended() {
    let (store, own) = (MemoryStore::default(), policy(&["3/1m"], "sliding_log"));
    let other = Policy::new("other", ["3/1m".parse().unwrap()]).unwrap();
    for (who, policy, by) in [
        ("b", &own, Override::ban()),
        ("c", &own, Override::exempt().until(at(SECOND))),
        ("a", &own, Override::ban().until(at(2 * SECOND))),
        ("d", &other, Override::ban()),
    ] {
        set(&store, policy, who, by, at(0));
    }
    let listed = |now| store.overrides(&own, now).into_iter().map(|shown| shown.key).collect::<Vec<_>>();
    assert_eq!(listed(at(0)), ["a", "b", "c"].map(key));
    assert_eq!(listed(at(SECOND)), ["a", "b"].map(key));
    // Other limits under the same name are the same policy.
    assert_eq!(store.overrides(&policy(&["9/1h"], "gcra"), at(2 * SECOND)).len(), 1);
}

#[test]
fn there_may_be_so_many_and_those_that_ended_dont_count() {
    let store = MemoryStore::builder().max_overrides(2).build().unwrap();
    let policy = policy(&["3/1m"], "sliding_log");
    set(&store, &policy, "a", Override::ban(), at(0));
    set(&store, &policy, "b", Override::ban().until(at(SECOND)), at(0));
    let third = |now| store.set_override(&policy, &key("c"), Override::ban(), now);
    assert!(matches!(third(at(0)), Err(OverrideError::TooMany { max: 2 })));
    assert!(check(&store, &policy, "c", at(0)).is_allowed(), "what was refused holds nothing");
    assert!(set(&store, &policy, "a", Override::exempt(), at(0)).is_some(), "one may be replaced");
    assert!(third(at(SECOND)).unwrap().is_none());
    assert_eq!(store.stats().overrides, 2);
    store.remove_override(&policy, &key("a"), at(SECOND));
    set(&store, &policy, "d", Override::ban(), at(SECOND));
}

#[test]
fn an_override_is_of_a_named_policy_and_not_yet_over() {
    let store = MemoryStore::default();
    let unnamed = Policy::unnamed(["3/1m".parse().unwrap()]).unwrap();
    let set = |policy: &Policy, by: Override| store.set_override(policy, &key("k"), by, at(5));
    assert!(matches!(set(&unnamed, Override::ban()), Err(OverrideError::Unnamed)));
    let named = policy(&["3/1m"], "sliding_log");
    assert!(matches!(set(&named, Override::ban().until(at(5))), Err(OverrideError::Over)));
    assert!(set(&named, Override::ban().until(at(6))).is_ok());
    assert!(matches!(Override::ban().with_note(&"x".repeat(257)), Err(OverrideError::Note { len: 257 })));
}

#[test]
fn keys_without_an_override_are_decided_as_if_nobody_had_one() {
    for algorithm in ["sliding_log", "sliding_counter", "sliding_buckets:10", "fixed_window", "gcra"] {
        let policy = policy(&["3/1m", "5/1h"], algorithm);
        let store = || MemoryStore::builder().shards(1).build().unwrap();
        let (with, without) = (store(), store());
        let decide = |store: &MemoryStore, who: &str, now| {
            let decision = check(store, &policy, who, at(now));
            (decision, store.inspect(&policy, &key(who), at(now)))
        };
        for n in 0..300 {
            let (who, now) = (format!("free {}", n % 30), n * SECOND);
            if n % 3 == 0 {
                let which = usize::try_from(n % 9 / 3).unwrap();
                let by = [Override::ban(), Override::exempt(), Override::limits(policy.clone())][which].clone();
                set(&with, &policy, &format!("other {}", n % 40), by.until(at(now + 50 * SECOND)), at(now));
            }
            let _ = check(&with, &policy, &format!("other {}", n % 40), at(now));
            assert_eq!(decide(&with, &who, now), decide(&without, &who, now), "{algorithm}, step {n}");
        }
    }
}

#[test]
fn an_overridden_key_never_shares_however_full_the_store_is() {
    for at_capacity in [AtCapacity::Shared, AtCapacity::Deny, AtCapacity::Admit] {
        let store = MemoryStore::builder().max_keys(1).shards(1).at_capacity(at_capacity).build().unwrap();
        let own = policy(&["3/1m"], "sliding_log");
        assert!(check(&store, &own, "first", at(0)).is_allowed());
        assert!(check(&store, &own, "crowd", at(0)).is_degraded());
        let wide = Override::limits(policy(&["2/1m"], "sliding_log")).until(at(SECOND));
        set(&store, &own, "k", wide, at(0));
        for remaining in [1, 0] {
            let decision = check(&store, &own, "k", at(0));
            assert_eq!((decision.remaining(), decision.is_degraded()), (remaining, false), "{at_capacity:?}");
        }
        assert_eq!(check(&store, &own, "k", at(0)).reason(), Reason::Limited);
        assert_eq!(store.stats().keys, 1, "it comes on top");
        // Its state stays its own when the override ends, though there is no room for another.
        let ended = check(&store, &own, "k", at(SECOND));
        assert_eq!((ended.used(), ended.is_degraded(), store.stats().keys), (3, false, 2), "{at_capacity:?}");
    }
}

#[test]
fn the_sweep_never_forgets_an_override() {
    let store = MemoryStore::builder().max_keys(64).shards(1).build().unwrap();
    let policy = policy(&["3/1s"], "sliding_log");
    assert!(check(&store, &policy, "mallory", at(0)).is_allowed());
    set(&store, &policy, "mallory", Override::ban(), at(0));
    set(&store, &policy, "trudy", Override::ban().until(at(20_000 * SECOND)), at(0));
    for n in 0..10_000 {
        let _ = check(&store, &policy, &format!("key {n}"), at(n * SECOND));
    }
    assert!(store.stats().evicted > 9_000);
    for who in ["mallory", "trudy"] {
        assert!(!check(&store, &policy, who, at(10_000 * SECOND)).is_allowed(), "{who}");
    }
}

#[test]
fn what_overrides_take_is_counted_and_given_back() {
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
    // The map itself stays as large as it was.
    assert!(store.stats().bytes < empty + 400 * 1000, "{}", store.stats().bytes);
    assert_eq!(store.stats().overrides, 0);
}

#[test]
fn what_was_charged_under_a_shorter_window_is_kept_as_long_as_the_policys_own_limits_count_it() {
    let policy = policy(&["1/1m"], "sliding_log");
    let other = Policy::unnamed(["3/2s".parse().unwrap()]).unwrap();
    for lifted in [false, true] {
        let store = MemoryStore::builder().shards(1).build().unwrap();
        set(&store, &policy, "a", Override::limits(other.clone()).until(at(SECOND)), at(0));
        for _ in 0..3 {
            assert!(check(&store, &policy, "a", at(0)).is_allowed());
        }
        if lifted {
            assert!(store.remove_override(&policy, &key("a"), at(1)).is_some());
        }
        // New keys clear away what has had its time, again and again.
        let sweep = |now: u64| {
            for i in 0..100 {
                let _ = check(&store, &policy, &format!("{now} {i}"), at(now));
            }
        };
        sweep(SECOND);
        assert!(!check(&store, &policy, "a", at(SECOND)).is_allowed());
        sweep(30 * SECOND);
        assert!(!check(&store, &policy, "a", at(60 * SECOND - 1)).is_allowed(), "as the retry time told");
        let evicted = store.stats().evicted;
        sweep(121 * SECOND);
        sweep(122 * SECOND);
        assert!(store.stats().evicted > evicted + 100, "it is forgotten as everything is");
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
    let held = store.stats().bytes;
    for i in 0..20 {
        let _ = check(&store, &policy, &format!("new {i}"), at(5 * SECOND));
    }
    let stats = store.stats();
    assert_eq!(stats.overrides, 0, "nobody has asked about them, and they are gone");
    assert!(stats.bytes < held, "{} of {held}", stats.bytes);
}
