//! The maximum number of keys, and the decisions on new keys at the maximum.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate::{AtCapacity, Cost, Hold, Key, Policy, Reason, Spend, Store as _};
use tidegate_redis::{RedisStore, RedisStoreBuilder};
use tidegate_testbed::{Proxy, Server};

const BOUND: u64 = 200;
/// Calls under way at once, of as many requests as a call takes.
const SLACK: u64 = 3 * 128;

fn builder(server: &Server) -> RedisStoreBuilder {
    RedisStore::builder(&server.url()).timeout(Duration::from_secs(20)).max_keys(BOUND)
}

fn policy() -> Policy {
    Policy::new("api", ["3/1h".parse().expect("a limit")]).expect("a policy")
}

fn key(number: u64) -> Key<'static> {
    Key::new(&format!("user {number}")).expect("a key").into_owned()
}

fn keys(server: &Server) -> u64 {
    u64::try_from(server.wire().command(["DBSIZE"]).integer()).expect("not negative")
}

/// Creates new keys until there is no room for more. Returns the number of requests.
async fn fill(store: &RedisStore) -> u64 {
    let policy = policy();
    for first in (0..).step_by(20) {
        let keys: Vec<_> = (first..first + 20).map(key).collect();
        join_all(keys.iter().map(async |key| store.check(&policy, key, Cost::ONE).await.expect("a decision"))).await;
        if store.stats().no_room > 0 {
            return first + 20;
        }
    }
    unreachable!("it does not end")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_creates_at_most_max_keys_and_existing_keys_are_decided_as_before() {
    let server = Server::start();
    let store = builder(&server).connect().expect("a store");
    store.ready().await;
    let policy = policy();
    let known = key(1_000_000);
    assert_eq!(store.check(&policy, &known, Cost::ONE).await.expect("a decision").used(), 1);
    fill(&store).await;
    let mut decisions = Vec::new();
    // Fewer at a time than the queue takes, so that none is shed.
    for first in (10_000..15_000).step_by(500) {
        let keys: Vec<_> = (first..first + 500).map(key).collect();
        decisions.extend(
            join_all(keys.iter().map(async |key| store.check(&policy, key, Cost::ONE).await.expect("a decision")))
                .await,
        );
    }
    let admitted = decisions.iter().filter(|decision| decision.is_allowed()).count();
    assert!(admitted <= 64 * 3, "they share 64 keys of 3 units: {admitted}");
    assert!(decisions.iter().all(|decision| decision.is_degraded() || decision.is_allowed()));
    assert!(keys(&server) <= BOUND + SLACK + 64, "{}", keys(&server));
    for used in 2..=3 {
        let decision = store.check(&policy, &known, Cost::ONE).await.expect("a decision");
        assert_eq!((decision.reason(), decision.used(), decision.is_degraded()), (Reason::Allowed, used, false));
    }
    assert_eq!(store.check(&policy, &known, Cost::ONE).await.expect("a decision").reason(), Reason::Limited);
    let found = store.degradations();
    let full = found.iter().find(|one| one.cause == "no_room").expect("it is reported");
    assert!(full.detail.contains("max_keys") && full.cure.contains("max_keys"), "{full:?}");
    assert_eq!(store.stats().errors["no_room"], store.stats().no_room);

    server.wire().command(["FLUSHDB"]).expect_ok();
    // The next check of the server finds room.
    loop {
        let decision = store.check(&policy, &key(7), Cost::ONE).await.expect("a decision");
        if !decision.is_degraded() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_at_the_maximum_is_denied_or_admitted_as_configured() {
    for (choice, reason) in [(AtCapacity::Deny, Reason::StoreUnavailable), (AtCapacity::Admit, Reason::Allowed)] {
        let server = Server::start();
        let store = builder(&server).at_capacity(choice).connect().expect("a store");
        store.ready().await;
        fill(&store).await;
        let existing = keys(&server);
        let decision = store.check(&policy(), &key(1_000_000), Cost::ONE).await.expect("a decision");
        assert_eq!((decision.reason(), decision.is_degraded()), (reason, true), "{choice:?}");
        let (policy, both) = (policy(), [key(1_000_001), key(0)]);
        let spends = [&both[0], &both[1]].map(|key| Spend { policy: &policy, key, cost: Cost::ONE });
        let decisions = store.check_all(&spends).await.expect("well-formed");
        assert_eq!((decisions.overall.reason(), decisions.overall.is_degraded()), (reason, true), "{choice:?}");
        assert_eq!(keys(&server), existing, "{choice:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_supplied_by_callers_fill_at_most_half_of_the_maximum() {
    let server = Server::start();
    let store = builder(&server).connect().expect("a store");
    store.ready().await;
    // Each with a window of its own.
    for i in 0..3 * BOUND {
        let limit = format!("1/{}ms", 3_600_000 + i).parse().expect("a limit");
        let _ =
            store.check(&Policy::unnamed([limit]).expect("a policy"), &key(i), Cost::ONE).await.expect("a decision");
    }
    assert!(keys(&server) <= BOUND / 2, "one request at a time exceeds nothing");
    let decision = store.check(&policy(), &key(0), Cost::ONE).await.expect("a decision");
    assert_eq!((decision.reason(), decision.used(), decision.is_degraded()), (Reason::Allowed, 1, false));
    let unnamed = Policy::unnamed(["1/2h".parse().expect("a limit")]).expect("a policy");
    let decision = store.check(&unnamed, &key(1), Cost::ONE).await.expect("a decision");
    assert_eq!((decision.reason(), decision.is_degraded()), (Reason::StoreUnavailable, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn in_one_decision_over_several_keys_only_a_new_key_uses_its_overflow_key() {
    let server = Server::start();
    let store = builder(&server).connect().expect("a store");
    store.ready().await;
    fill(&store).await;
    let policy = policy();
    let (known, new) = (key(0), key(1_000_000));
    let spends = [&known, &new].map(|key| Spend { policy: &policy, key, cost: Cost::ONE });
    let decisions = store.check_all(&spends).await.expect("well-formed");
    let degraded = decisions.parts.iter().map(tidegate::Decision::is_degraded).collect::<Vec<_>>();
    assert_eq!((decisions.parts[0].used(), degraded), (2, vec![false, true]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_keys_up_to_maxmemory_is_reported_and_new_keys_stay_limited() {
    let server = Server::builder().arg("maxmemory", "6mb").arg("maxmemory-policy", "noeviction").start();
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(20)).connect().expect("a store");
    store.ready().await;
    let policy = policy();
    let mut number = 0;
    while store.stats().no_room == 0 {
        let keys: Vec<_> = (number..number + 100).map(key).collect();
        join_all(keys.iter().map(async |key| store.check(&policy, key, Cost::ONE).await.expect("a decision"))).await;
        number += 100;
        assert!(number < 1_000_000, "memory has an end: {:?}", store.stats());
    }
    // Redis frees buffers now and then. A check that finds room lets a few more keys in, and these are not degraded.
    let mut admitted_to_overflow_keys = 0;
    let mut is_reported = false;
    for i in 0..2_000 {
        let decision = store.check(&policy, &key(10_000_000 + i), Cost::ONE).await.expect("a decision");
        admitted_to_overflow_keys += u64::from(decision.is_allowed() && decision.is_degraded());
        is_reported = is_reported
            || store.degradations().iter().any(|one| one.cause == "no_room" && one.detail.contains("maxmemory"));
    }
    assert!(
        admitted_to_overflow_keys <= 64 * 3,
        "they share 64 keys of 3 units: {admitted_to_overflow_keys}; {:?}",
        store.stats()
    );
    assert!(is_reported, "{:?}", store.degradations());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_one_decision_that_share_an_overflow_key_are_all_charged_to_it() {
    let server = Server::start();
    let store = builder(&server).connect().expect("a store");
    store.ready().await;
    fill(&store).await;
    let narrow = Policy::new("narrow", ["10/1h".parse().expect("a limit")]).expect("a policy");
    let cost = |units| Cost::new(units).expect("in range");
    assert!(store.check(&narrow, &key(1_000_000), cost(1)).await.expect("a decision").is_degraded());
    // Keys that share the overflow key of that one: no other overflow key of the policy has units in use.
    let mut sharing = Vec::new();
    for number in 1_000_001.. {
        let found = store.peek(&narrow, &key(number), Cost::ONE).await.expect("a decision");
        assert!(found.is_degraded(), "a new key");
        if found.used() == 1 {
            sharing.push(key(number));
        }
        if sharing.len() == 2 {
            break;
        }
    }
    let spends = |units| [&sharing[0], &sharing[1]].map(|key| Spend { policy: &narrow, key, cost: cost(units) });
    let decisions = store.check_all(&spends(3)).await.expect("well-formed");
    let outcomes =
        decisions.parts.iter().map(|part| (part.reason(), part.used(), part.is_degraded())).collect::<Vec<_>>();
    assert_eq!(outcomes, [(Reason::Allowed, 7, true); 2], "both are charged, and both see it");
    assert_eq!(store.peek(&narrow, &sharing[0], Cost::ONE).await.expect("a decision").used(), 7);
    let decisions = store.check_all(&spends(2)).await.expect("well-formed");
    assert_eq!((decisions.overall.reason(), decisions.overall.is_degraded()), (Reason::Limited, true), "7 + 4 > 10");
    assert_eq!(store.peek(&narrow, &sharing[0], Cost::ONE).await.expect("a decision").used(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn named_limits_supplied_by_callers_fill_at_most_half_of_the_maximum_and_get_no_overflow_key() {
    let server = Server::start();
    let store = builder(&server).connect().expect("a store");
    store.ready().await;
    let throttle =
        Policy::new("CL.THROTTLE", ["3/1h".parse().expect("a limit")]).expect("a policy").supplied_by_caller();
    for number in 0..BOUND {
        let _ = store.check(&throttle, &key(number), Cost::ONE).await.expect("a decision");
    }
    assert!(keys(&server) <= BOUND / 2, "{}", keys(&server));
    let (policy, known, new, named) = (policy(), key(0), key(BOUND), key(BOUND + 1));
    let decision = store.check(&throttle, &new, Cost::ONE).await.expect("a decision");
    assert_eq!((decision.reason(), decision.is_degraded()), (Reason::StoreUnavailable, true));
    let of = |policy, key| Spend { policy, key, cost: Cost::ONE };
    let decisions = store.check_all(&[of(&throttle, &new), of(&policy, &named)]).await.expect("well-formed");
    assert_eq!((decisions.overall.reason(), decisions.overall.is_degraded()), (Reason::StoreUnavailable, true));
    let existing = keys(&server);
    let decisions = store.check_all(&[of(&throttle, &known), of(&policy, &named)]).await.expect("well-formed");
    assert_eq!((decisions.overall.reason(), decisions.overall.is_degraded()), (Reason::Allowed, false));
    assert_eq!(keys(&server), existing + 1, "there is room for a policy's key and for an existing key of a caller");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_key_at_its_limit_denies_a_decision_whose_new_key_is_admitted_uncounted() {
    let server = Server::start();
    let store = builder(&server).at_capacity(AtCapacity::Admit).connect().expect("a store");
    store.ready().await;
    fill(&store).await;
    let (policy, known, new) = (policy(), key(0), key(1_000_000));
    let spends = [&new, &known].map(|key| Spend { policy: &policy, key, cost: Cost::ONE });
    let existing = keys(&server);
    for used in 2..=3 {
        let decisions = store.check_all(&spends).await.expect("well-formed");
        assert_eq!((decisions.overall.reason(), decisions.overall.is_degraded()), (Reason::Allowed, true));
        assert_eq!((decisions.parts[1].used(), decisions.parts[1].is_degraded()), (used, false));
        assert!(decisions.parts[0].is_degraded() && decisions.parts[0].charged_at().is_none());
    }
    let decisions = store.check_all(&spends).await.expect("well-formed");
    assert_eq!((decisions.overall.reason(), decisions.overall.part()), (Reason::Limited, 1));
    assert_eq!(keys(&server), existing);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_created_by_decisions_over_several_keys_are_counted_at_once() {
    let server = Server::start();
    let store = builder(&server).connect().expect("a store");
    store.ready().await;
    let policy = policy();
    for first in (0..2 * BOUND).step_by(50) {
        let keys: Vec<_> = (first..first + 50).map(key).collect();
        let spends: Vec<_> = keys.iter().map(|key| Spend { policy: &policy, key, cost: Cost::ONE }).collect();
        let _ = store.check_all(&spends).await.expect("well-formed");
    }
    assert!(keys(&server) <= BOUND + 64, "{}, at most 64 of them overflow keys", keys(&server));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_at_the_maximum_takes_at_most_one_timeout() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let store = RedisStore::builder(&proxy.url()).timeout(Duration::from_secs(1)).max_keys(BOUND);
    let store = store.connect().expect("a store");
    store.ready().await;
    fill(&store).await;
    let overflowed = || store.stats().errors.get("no_room").copied().unwrap_or(0);
    let before = overflowed();
    // One request is answered within the timeout, two are not.
    proxy.set_delay(Duration::from_millis(600));
    let (policy, new) = (policy(), [key(1_000_000), key(1_000_001)]);
    assert!(store.check(&policy, &new[0], Cost::ONE).await.expect("a decision").is_degraded());
    assert_eq!(overflowed(), before, "the second question was not answered in time");
    assert!(store.stats().errors.keys().any(|cause| ["timeout", "late"].contains(cause)), "{:?}", store.stats());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_of_a_new_key_at_the_maximum_is_in_an_overflow_key_and_can_be_settled() {
    let server = Server::start();
    let store = builder(&server).connect().expect("a store");
    store.ready().await;
    // No check uses its overflow keys.
    let policy = Policy::new("jobs", ["3/1h".parse().expect("a limit")]).expect("a policy");
    let hold = Hold::new(Duration::from_secs(60));
    let first = store.reserve(&policy, &key(0), Cost::ONE, hold).await.expect("well-formed");
    assert!(!first.decision.is_degraded(), "the first reservation reads the secret of the ids");
    fill(&store).await;
    let (existing, mut ids) = (keys(&server), Vec::new());
    for number in 0..1000 {
        let reserved = store.reserve(&policy, &key(1_000_000 + number), Cost::ONE, hold).await.expect("well-formed");
        assert!(reserved.decision.is_degraded());
        assert_eq!(reserved.id.is_some(), reserved.decision.is_allowed());
        ids.extend(reserved.id);
    }
    assert!((1..=64 * 3).contains(&ids.len()), "they share 64 keys of 3 units: {}", ids.len());
    assert!(keys(&server) <= existing + 64);
    // Any node finds the overflow key by the id.
    let other = builder(&server).connect().expect("a store");
    other.ready().await;
    for id in &ids {
        assert!(other.commit(id, &[0], &policy).await.expect("redis answers").known);
        assert!(!store.commit(id, &[0], &policy).await.expect("redis answers").known, "it was settled once");
    }
    let again =
        store.reserve(&policy, &key(1_000_000), Cost::new(3).expect("in range"), hold).await.expect("well-formed");
    assert_eq!((again.decision.reason(), again.decision.used()), (Reason::Allowed, 3), "all units came back");

    // A caller's own limits have no overflow keys.
    let callers =
        Policy::new("CL.THROTTLE", ["3/1h".parse().expect("a limit")]).expect("a policy").supplied_by_caller();
    let denied = store.reserve(&callers, &key(1_000_000), Cost::ONE, hold).await.expect("well-formed");
    assert_eq!((denied.decision.reason(), denied.id), (Reason::StoreUnavailable, None));
}
