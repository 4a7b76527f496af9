//! Overrides in Redis: they apply to all clients at once, last until their end, and are listed.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate::{
    Algorithm, Buckets, Clock, Cost, Key, Op, Override, OverrideError, Policy, Reason, Spend, Store as _, StoreError,
    Timestamp,
};
use tidegate_redis::RedisStore;
use tidegate_testbed::{Cluster, Server, Wire};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
const HOUR_MS: i64 = 3_600_000;

fn key(name: &str) -> Key<'static> {
    Key::new(name).expect("a key").into_owned()
}

fn cost(units: u64) -> Cost {
    Cost::new(units).expect("in range")
}

fn policy(name: &str, limits: &[&str]) -> Policy {
    Policy::new(name, limits.iter().map(|limit| limit.parse().expect("a limit"))).expect("a policy")
}

/// A policy of each algorithm and of one and of two limits.
fn policies() -> Vec<Policy> {
    let buckets = Algorithm::SlidingBuckets(Buckets::new(10).expect("in range"));
    let algorithms =
        [Algorithm::SlidingLog, Algorithm::SlidingCounter, buckets, Algorithm::FixedWindow, Algorithm::Gcra(None)];
    let mut all = Vec::new();
    for (i, algorithm) in algorithms.into_iter().enumerate() {
        for limits in [&["5/1m"][..], &["5/1m", "50/2m"]] {
            all.push(policy(&format!("p{i}-{}", limits.len()), limits).with_algorithm(algorithm));
        }
    }
    all
}

async fn store(url: &str) -> RedisStore {
    let store = RedisStore::builder(url).timeout(Duration::from_secs(10)).connect().expect("a store");
    store.ready().await;
    store
}

fn in_an_hour() -> Timestamp {
    Clock::default().now().after(Duration::from_secs(3_600))
}

fn pttl(wire: &mut Wire, name: &[u8]) -> i64 {
    wire.command([&b"PTTL"[..], name]).integer()
}

fn kind(wire: &mut Wire, name: &[u8]) -> String {
    wire.command([&b"TYPE"[..], name]).as_str_lossy().into_owned()
}

fn list_name(policy: &Policy) -> Vec<u8> {
    format!("tg:{{~overrides}}/{}", policy.name().expect("a name")).into_bytes()
}

/// The name of a state at given times.
fn given_name(store: &RedisStore, policy: &Policy, key: &Key<'_>) -> Vec<u8> {
    [&b"tg-given"[..], &store.key_name(policy, key)[2..]].concat()
}

#[tokio::test]
async fn a_charge_under_a_shorter_window_is_kept_while_the_policys_own_limits_count_it() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let mut wire = server.wire();
    for (algorithm, own) in [(Algorithm::SlidingLog, HOUR_MS), (Algorithm::SlidingCounter, 2 * HOUR_MS)] {
        let policy = policy("long", &["5/1h"]).with_algorithm(algorithm);
        let key = key(&algorithm.to_string());
        let name = store.key_name(&policy, &key);
        let other = Override::limits(self::policy("other", &["30/1s"]).with_algorithm(algorithm));
        let soon = Clock::default().now().after(Duration::from_secs(5));
        store.set_override(&policy, &key, other.until(soon)).await.expect("redis answers");
        assert!(store.check(&policy, &key, cost(6)).await.expect("a decision").is_allowed());
        let least = own - 60_000;
        assert!(pttl(&mut wire, &name) > least, "{} under the override", pttl(&mut wire, &name));
        store.remove_override(&policy, &key).await.expect("redis answers");
        assert!(pttl(&mut wire, &name) > least, "{} after it was removed", pttl(&mut wire, &name));
        assert_eq!(store.check(&policy, &key, Cost::ONE).await.expect("a decision").reason(), Reason::Limited);
    }
}

#[tokio::test]
async fn a_key_expires_after_its_override_and_its_state() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let (mut wire, key) = (server.wire(), key("somebody"));
    let until_end = HOUR_MS - 60_000..=HOUR_MS + 60_000;
    for policy in policies() {
        let (name, list) = (store.key_name(&policy, &key), list_name(&policy));
        let other = Override::limits(self::policy("other", &["3/1s", "30/30s"]));
        for by in [Override::ban(), Override::exempt(), other] {
            store.reset(&policy, &key).await.expect("redis answers");
            assert_eq!(store.check(&policy, &key, cost(2)).await.expect("a decision").used(), 2);
            let of_state = pttl(&mut wire, &name);
            assert!(of_state > 0 && of_state < HOUR_MS / 2, "{of_state}");
            for (round, ends) in [false, true, false, true].into_iter().enumerate() {
                let set = if ends { by.clone().until(in_an_hour()) } else { by.clone() };
                let before = store.set_override(&policy, &key, set.clone()).await.expect("redis answers");
                assert_eq!(before.is_some(), round > 0);
                // A charge, a denial, a refund and a reset leave it as it is.
                for step in 0..4 {
                    let _ = match step {
                        0 => store.charge(&policy, &key, Cost::ONE).await.expect("a decision").is_allowed(),
                        1 => store.check(&policy, &key, cost(5)).await.expect("a decision").is_allowed(),
                        2 => store.refund(&policy, &key, Cost::ONE, NOW).await.expect("redis answers").is_returned(),
                        _ => round == 1 && store.reset(&policy, &key).await.expect("redis answers"),
                    };
                    for name in [&name, &list] {
                        let left = pttl(&mut wire, name);
                        assert!(
                            if ends { until_end.contains(&left) } else { left == -1 },
                            "{left}, {set:?} {policy:?}"
                        );
                    }
                }
            }
            let used = |shown: Option<tidegate::Inspection>| shown.map_or(0, |shown| shown.limits[0].used);
            let counted = used(store.inspect(&policy, &key).await.expect("redis answers"));
            assert!(store.remove_override(&policy, &key).await.expect("redis answers").is_some());
            assert_eq!(used(store.inspect(&policy, &key).await.expect("redis answers")), counted, "{by:?} {policy:?}");
            let left = pttl(&mut wire, &name);
            assert!(left == -2 || (left > 0 && left < HOUR_MS / 2), "{left} after {by:?} of {policy:?}");
            assert_eq!(kind(&mut wire, &list), "none", "the list is empty");
        }
    }
    for name in wire.command(["KEYS", "*"]).array() {
        assert!(pttl(&mut wire, name.bulk().expect("a name")) > 0, "{name:?}");
    }
}

#[tokio::test]
async fn writing_to_an_expired_override_restores_plain_state_and_reading_changes_nothing() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let (mut wire, key, end) = (server.wire(), key("somebody"), NOW.after(Duration::from_secs(10)));
    for policy in policies() {
        let name = given_name(&store, &policy, &key);
        let decide = async |op, units, at| store.at(at).decide(op, &policy, &key, cost(units)).await;
        assert_eq!(decide(Op::Check, 2, NOW).await.expect("redis answers").used(), 2);
        let ordinary = kind(&mut wire, &name);
        let by = Override::ban().until(end);
        assert!(store.at(NOW).set_override(&policy, &key, by).await.expect("redis answers").is_none());
        assert_eq!(kind(&mut wire, &name), "hash");
        let before = Timestamp::from_micros(end.as_micros() - 1);
        let denied = decide(Op::Check, 1, before).await.expect("redis answers");
        assert_eq!((denied.reason(), denied.retry_after()), (Reason::Banned, Some(Duration::from_micros(1))));
        let looked = decide(Op::Peek, 1, end).await.expect("redis answers");
        assert!(looked.is_allowed() && !looked.is_overridden());
        assert!(!decide(Op::Check, 5, end).await.expect("redis answers").is_allowed(), "by the policy's own limits");
        assert_eq!(wire.command([&b"HGET"[..], &name, b"h"]).bulk().map(|record| record[0]), Some(b'O'));
        let admitted = decide(Op::Check, 1, end).await.expect("redis answers");
        assert!(admitted.is_allowed() && !admitted.is_overridden());
        assert_eq!(kind(&mut wire, &name), ordinary, "{policy:?}");
        if ordinary == "hash" {
            assert_eq!(wire.command([&b"HGET"[..], &name, b"h"]).bulk().map(|header| header[0]), Some(b'T'));
            assert_eq!(wire.command([&b"HEXISTS"[..], &name, b"s"]).integer(), 0);
        }
        assert!(store.at(end).override_of(&policy, &key).await.expect("redis answers").is_none());
        assert!(store.at(end).overrides(&policy).await.expect("redis answers").is_empty());
    }
}

/// The policy's own limits are full beyond the end of one override, and free at the end of another.
#[tokio::test]
async fn a_request_is_admitted_exactly_after_the_reported_wait() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let narrow = Override::limits(policy("narrow", &["1/1h"]));
    for policy in policies() {
        for (i, by) in [Override::ban(), narrow.clone()].into_iter().enumerate() {
            for (seconds, own) in [(1, true), (600, false)] {
                let key = key(&format!("{i}-{seconds}"));
                let peek = async |at| store.at(at).decide(Op::Peek, &policy, &key, Cost::ONE).await;
                let _ = store.at(NOW).decide(Op::Charge, &policy, &key, cost(5)).await.expect("redis answers");
                let span = Duration::from_secs(seconds);
                let by = by.clone().until(NOW.after(span));
                store.at(NOW).set_override(&policy, &key, by.clone()).await.expect("redis answers");
                let denied = peek(NOW).await.expect("redis answers");
                let wait = denied.retry_after().expect("a wait");
                assert!(denied.is_overridden());
                if i == 0 {
                    assert_eq!((denied.reason(), wait), (Reason::Banned, span), "{policy:?}");
                    let ended = peek(NOW.after(span)).await.expect("redis answers");
                    let expected = if own { Reason::Limited } else { Reason::Allowed };
                    assert_eq!(ended.reason(), expected, "the limits hold again: {policy:?}");
                    continue;
                }
                assert_eq!(denied.reason(), Reason::Limited);
                // A debt is drained as it was, so that it may fit under other limits before they end.
                assert!(if own { wait > span } else { wait <= span }, "{wait:?} under {by:?} of {policy:?}");
                let then = NOW.after(wait);
                let before = Timestamp::from_micros(then.as_micros() - 1);
                assert!(!peek(before).await.expect("redis answers").is_allowed(), "{by:?} of {policy:?}");
                assert!(peek(then).await.expect("redis answers").is_allowed(), "{by:?} of {policy:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_override_applies_at_once_to_all_clients_and_a_reset_does_not_remove_it() {
    let server = Server::start();
    let (one, other) = (store(&server.url()).await, store(&server.url()).await);
    let key = key("somebody");
    for policy in policies() {
        assert!(one.check(&policy, &key, cost(2)).await.expect("a decision").is_allowed());
        let by = Override::ban().with_note("abuse").expect("short");
        one.set_override(&policy, &key, by).await.expect("redis answers");
        for _ in 0..2 {
            let denied = other.check(&policy, &key, Cost::ONE).await.expect("a decision");
            assert_eq!((denied.reason(), denied.is_overridden()), (Reason::Banned, true), "{policy:?}");
            assert_eq!((denied.used(), denied.remaining()), (2, 0));
        }
        let shown = other.override_of(&policy, &key).await.expect("redis answers").expect("an override");
        assert_eq!((shown.key, shown.r#override.note()), (key.clone(), "abuse"));
        assert!(other.reset(&policy, &key).await.expect("redis answers"));
        assert!(!other.reset(&policy, &key).await.expect("redis answers"), "there is no state any more");
        assert!(other.inspect(&policy, &key).await.expect("redis answers").is_none());
        assert!(!one.check(&policy, &key, Cost::ONE).await.expect("a decision").is_allowed());
        other.set_override(&policy, &key, Override::exempt()).await.expect("redis answers");
        let admitted = one.check(&policy, &key, cost(1_000)).await.expect("a decision");
        assert_eq!((admitted.reason(), admitted.charged_at()), (Reason::Allowed, None));
        assert!(one.remove_override(&policy, &key).await.expect("redis answers").is_some());
        assert!(other.remove_override(&policy, &key).await.expect("redis answers").is_none());
        assert_eq!(other.check(&policy, &key, cost(5)).await.expect("a decision").used(), 5);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overridden_and_plain_keys_are_decided_in_one_call() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let keys: Vec<_> = (0..24).map(|i| key(&format!("user-{i}"))).collect();
    let narrow = Override::limits(policy("narrow", &["1/1h"]));
    let kinds = [None, Some(Override::ban()), Some(Override::exempt()), Some(narrow)];
    for policy in policies() {
        for (i, key) in keys.iter().enumerate() {
            if let Some(by) = &kinds[i % 4] {
                store.set_override(&policy, key, by.clone()).await.expect("redis answers");
            }
        }
        // Half of them have no state yet.
        for round in 1..=3 {
            let requested = if round == 1 { 12 } else { 24 };
            let calls = store.stats().calls;
            // Each key twice, so that the second meets what the first has made.
            let twice = keys[..requested].iter().chain(&keys[..requested]);
            let decisions =
                join_all(twice.map(async |key| store.check(&policy, key, Cost::ONE).await.expect("a decision"))).await;
            assert!(store.stats().calls - calls < requested as u64, "they went together");
            for (i, decision) in decisions.iter().enumerate() {
                let (key, earlier) = (i % requested, if i % requested < 12 { round - 1 } else { round - 2 });
                let spent = 2 * earlier + u64::from(i >= requested);
                let expected = match key % 4 {
                    0 => (spent < 5, false, (spent + 1).min(5)),
                    1 => (false, true, 0),
                    2 => (true, true, 0),
                    _ => (spent < 1, true, 1),
                };
                let outcome = (decision.is_allowed(), decision.is_overridden(), decision.used());
                assert_eq!(outcome, expected, "{key} in round {round}: {decision:?}");
            }
        }
        let spends = [0, 3, 1].map(|i| Spend { policy: &policy, key: &keys[i], cost: Cost::ONE });
        let decisions = store.check_all(&spends).await.expect("well-formed");
        assert_eq!((decisions.overall.reason(), decisions.overall.part()), (Reason::Banned, 2));
    }
}

#[tokio::test]
async fn a_full_list_accepts_no_override_until_one_has_ended() {
    let server = Server::start();
    let builder = RedisStore::builder(&server.url()).timeout(Duration::from_secs(10));
    let store = builder.max_overrides(2).connect().expect("a store");
    store.ready().await;
    let policy = policy("p", &["5/1m"]);
    let end = NOW.after(Duration::from_secs(1));
    let set = async |name: &str, by: Override, at| store.at(at).set_override(&policy, &key(name), by).await;
    set("a", Override::ban(), NOW).await.expect("room");
    set("b", Override::ban().until(end), NOW).await.expect("room");
    let full = StoreError::Override(OverrideError::TooMany { max: 2 });
    assert_eq!(set("c", Override::ban(), NOW).await.expect_err("full"), full);
    assert!(store.at(NOW).override_of(&policy, &key("c")).await.expect("redis answers").is_none());
    let replaced = set("b", Override::exempt().until(end), NOW).await.expect("one for another");
    assert!(replaced.is_some());
    set("c", Override::ban(), end).await.expect("one has ended");
    assert_eq!(set("d", Override::ban(), end).await.expect_err("full"), full);
    let keys = async |at| {
        let shown = store.at(at).overrides(&policy).await.expect("redis answers");
        shown.iter().map(|one| String::from_utf8_lossy(one.key.as_bytes()).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(end).await, ["a", "c"]);
    let over = StoreError::Override(OverrideError::Over);
    assert_eq!(set("a", Override::ban().until(NOW), NOW).await.expect_err("over"), over);
    let past = Override::ban().until(Timestamp::from_micros(1));
    let outcome = store.set_override(&policy, &key("real"), past).await;
    assert_eq!(outcome.expect_err("over by the server's clock"), over);
    let brought = Policy::unnamed(policy.limits().to_vec()).expect("a policy");
    let unnamed = store.set_override(&brought, &key("a"), Override::ban()).await;
    assert_eq!(unnamed.expect_err("no name"), StoreError::Override(OverrideError::Unnamed));
}

#[tokio::test]
async fn a_long_list_is_returned_complete_and_in_order() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let policy = policy("p", &["5/1m"]);
    let keys: Vec<_> = (0..1_000).map(|i| key(&format!("user-{i:04}"))).collect();
    let end = |i: usize| NOW.after(Duration::from_secs(1 + i as u64 % 2));
    let set = keys.iter().enumerate().map(async |(i, key)| {
        let by = Override::ban().until(end(i));
        store.at(NOW).set_override(&policy, key, by).await.expect("redis answers")
    });
    assert!(join_all(set).await.iter().all(Option::is_none));
    let all = store.at(NOW).overrides(&policy).await.expect("redis answers");
    assert!(all.iter().map(|one| &one.key).eq(&keys));
    let later = store.at(end(0)).overrides(&policy).await.expect("redis answers");
    assert!(later.iter().map(|one| &one.key).eq(keys.iter().skip(1).step_by(2)), "{}", later.len());
    // A write removes overrides that have ended.
    store.at(end(0)).remove_override(&policy, &keys[1]).await.expect("redis answers");
    let name = [b"tg-given", &list_name(&policy)[2..]].concat();
    assert_eq!(server.wire().command([&b"HLEN"[..], &name]).integer(), 500, "499 and what is known of them");
}

#[tokio::test]
async fn foreign_values_and_later_formats_are_refused_by_name_and_not_changed() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let mut wire = server.wire();
    for policy in policies() {
        let (list, hash, later) = (key("list"), key("hash"), key("later"));
        wire.command([&b"LPUSH"[..], &store.key_name(&policy, &list), b"theirs"]).integer();
        wire.command([&b"HSET"[..], &store.key_name(&policy, &hash), b"h", b"theirs"]).integer();
        wire.command([&b"HSET"[..], &store.key_name(&policy, &later), b"h", b"O\x02later"]).integer();
        for key in [&list, &hash, &later] {
            let name = store.key_name(&policy, key);
            let before = wire.command([&b"DUMP"[..], &name]);
            let expected = if key == &later { "newer_version" } else { "wrong_type" };
            let set = store.set_override(&policy, key, Override::ban()).await.expect_err("not ours");
            assert_eq!(set.cause(), expected);
            let removed = store.remove_override(&policy, key).await.expect_err("not ours");
            assert_eq!(removed.cause(), expected);
            assert_eq!(store.override_of(&policy, key).await.expect_err("not ours").cause(), expected);
            assert_eq!(store.reset(&policy, key).await.expect_err("not ours").cause(), expected);
            assert!(store.charge(&policy, key, Cost::ONE).await.expect("a decision").is_degraded());
            assert_eq!(wire.command([&b"DUMP"[..], &name]), before);
        }
    }
}

#[tokio::test]
async fn a_list_that_cannot_be_written_is_reported_and_the_override_is_active() {
    let server = Server::start();
    let store = store(&server.url()).await;
    let (mut wire, policy, key) = (server.wire(), policy("p", &["5/1m"]), key("somebody"));
    let list = list_name(&policy);
    wire.command([&b"SET"[..], &list, b"theirs"]).expect_ok();
    let is_unlisted =
        |error: &StoreError| matches!(error, StoreError::Unlisted(why) if why.contains("tidegate did not write"));
    let refused = store.set_override(&policy, &key, Override::ban()).await.expect_err("no list");
    assert_eq!(refused.cause(), "wrong_type");
    assert!(store.override_of(&policy, &key).await.expect("redis answers").is_none(), "nothing was set");
    // The store assumes room until a write fails.
    wire.command([&b"DEL"[..], &list]).integer();
    wire.command([&b"HSET"[..], &list, b"theirs", b"1"]).integer();
    let unlisted = store.set_override(&policy, &key, Override::ban()).await.expect_err("no list");
    assert!(is_unlisted(&unlisted), "{unlisted:?}");
    assert!(unlisted.to_string().contains("in force"), "{unlisted}");
    assert_eq!(
        store.check(&policy, &key, Cost::ONE).await.expect("a decision").reason(),
        Reason::Banned,
        "it is in force"
    );
    let removed = store.remove_override(&policy, &key).await.expect_err("no list");
    assert!(is_unlisted(&removed), "{removed:?}");
    assert!(store.check(&policy, &key, Cost::ONE).await.expect("a decision").is_allowed(), "it is removed");
    assert_eq!(wire.command([&b"HGETALL"[..], &list]).array().len(), 2, "what is not ours is left as it is");
    // Repeating it is safe.
    store.set_override(&policy, &key, Override::ban()).await.expect_err("no list");
    wire.command([&b"DEL"[..], &list]).integer();
    assert!(store.overrides(&policy).await.expect("redis answers").is_empty());
    assert!(store.set_override(&policy, &key, Override::ban()).await.expect("redis answers").is_some());
    assert_eq!(store.overrides(&policy).await.expect("redis answers").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overrides_and_states_in_a_moving_slot_are_not_lost() {
    let cluster = Cluster::start(2, 0);
    let builder = RedisStore::builder(&cluster.url()).timeout(Duration::from_secs(1));
    let store = builder.page(3).connect().expect("a store");
    store.ready().await;
    let key = key("mover");
    let limit = "1000/1h".parse().expect("a limit");
    let named = |name: &str| Policy::new(name, [limit]).expect("a policy").with_algorithm(Algorithm::SlidingCounter);
    let (plain, banned, narrowed, removed) = (named("plain"), named("banned"), named("narrowed"), named("removed"));
    let new = named("new");
    for policy in [&plain, &banned, &narrowed, &removed] {
        assert_eq!(store.check(policy, &key, cost(5)).await.expect("a decision").used(), 5);
    }
    let narrow = Override::limits(policy("other", &["20/1h"]).with_algorithm(Algorithm::SlidingLog));
    store.set_override(&banned, &key, Override::ban()).await.expect("redis answers");
    store.set_override(&narrowed, &key, narrow).await.expect("redis answers");
    store.set_override(&removed, &key, Override::ban()).await.expect("redis answers");
    let slot = cluster.key_slot(store.key_name(&plain, &key));
    let moving = cluster.begin_move(slot, 1 - cluster.master_of_slot(slot));
    let refused = store.set_override(&plain, &key, Override::ban()).await.expect_err("it would become a hash");
    assert_eq!(refused.cause(), "moving");
    assert_eq!(store.check(&plain, &key, Cost::ONE).await.expect("a decision").used(), 6, "the state is still there");
    assert_eq!(store.check(&banned, &key, Cost::ONE).await.expect("a decision").reason(), Reason::Banned);
    assert!(store.reset(&banned, &key).await.expect("redis answers"));
    assert_eq!(store.check(&banned, &key, Cost::ONE).await.expect("a decision").reason(), Reason::Banned);
    // The state changes its layout and then gets pages, which a string can't have.
    for used in 6..=20 {
        assert_eq!(store.check(&narrowed, &key, Cost::ONE).await.expect("a decision").used(), used);
    }
    assert!(!store.check(&narrowed, &key, Cost::ONE).await.expect("a decision").is_allowed());
    assert!(store.remove_override(&removed, &key).await.expect("redis answers").is_some());
    assert_eq!(
        store.check(&removed, &key, Cost::ONE).await.expect("a decision").used(),
        6,
        "earlier charges still count"
    );
    store.set_override(&new, &key, Override::ban()).await.expect("it is made where the slot goes");
    assert_eq!(moving.move_keys(10), 4);
    moving.finish();
    assert_eq!(store.check(&new, &key, Cost::ONE).await.expect("a decision").reason(), Reason::Banned);
    assert_eq!(store.check(&banned, &key, Cost::ONE).await.expect("a decision").reason(), Reason::Banned);
    assert!(!store.check(&narrowed, &key, Cost::ONE).await.expect("a decision").is_allowed());
    store.set_override(&plain, &key, Override::exempt()).await.expect("the slot has moved");
    assert!(store.check(&plain, &key, Cost::ONE).await.expect("a decision").is_overridden());
    assert!(store.remove_override(&plain, &key).await.expect("redis answers").is_some());
    assert_eq!(store.check(&plain, &key, Cost::ONE).await.expect("a decision").used(), 7);
    for policy in [&banned, &narrowed, &new] {
        assert_eq!(store.overrides(policy).await.expect("redis answers").len(), 1);
    }
    assert!(store.overrides(&removed).await.expect("redis answers").is_empty());
}
