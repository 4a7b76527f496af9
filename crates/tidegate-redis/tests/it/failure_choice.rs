//! Decisions while Redis does not answer: by the failure choice of the policy or of the call.

use std::time::Duration;

use futures_util::FutureExt;
use tidegate::{Cost, Decision, Key, OnStoreFailure, Op, Override, Policy, Reason, Share, Spend, Store as _};
use tidegate_redis::{BreakerState, RedisStore};
use tidegate_testbed::{Proxy, Server};

fn policy(choice: OnStoreFailure) -> Policy {
    let limits = ["100/1h".parse().expect("a limit")];
    Policy::new("api", limits).expect("a policy").with_on_store_failure(choice)
}

fn key() -> Key<'static> {
    Key::new("somebody").expect("a key")
}

fn local() -> OnStoreFailure {
    OnStoreFailure::Local(Share::new(0.25).expect("in range"))
}

/// Sends requests until the breaker is open.
async fn open_the_breaker(store: &RedisStore) {
    while store.breakers().iter().any(|(_, state)| *state == BreakerState::Closed) {
        let _ = store
            .peek(&policy(OnStoreFailure::Open), &Key::new("unused").expect("a key"), Cost::ONE)
            .await
            .expect("a decision");
    }
}

fn reason_and_degraded(decision: Decision) -> (Reason, bool) {
    (decision.reason(), decision.is_degraded())
}

#[tokio::test]
async fn a_store_without_redis_starts_and_applies_the_failure_choice() {
    let stopped = Server::start();
    stopped.stop();
    let store = RedisStore::connect(&stopped.url()).expect("a store");
    open_the_breaker(&store).await;
    assert_eq!(
        reason_and_degraded(store.check(&policy(OnStoreFailure::Open), &key(), Cost::ONE).await.expect("a decision")),
        (Reason::Allowed, true)
    );
    let closed = policy(OnStoreFailure::Closed);
    assert_eq!(
        reason_and_degraded(store.check(&closed, &key(), Cost::ONE).await.expect("a decision")),
        (Reason::StoreUnavailable, true)
    );
    let stats = store.stats();
    assert_eq!((stats.degraded_closed, stats.calls), (1, 0), "no call was made");
    assert!(stats.errors.get("unreachable").is_some_and(|times| *times >= 2), "{stats:?}");
    store.refund(&closed, &key(), Cost::ONE, tidegate::Timestamp::from_micros(1)).await.expect_err("no answer");

    stopped.restart();
    store.ready().await;
    assert_eq!(
        reason_and_degraded(store.check(&closed, &key(), Cost::ONE).await.expect("a decision")),
        (Reason::Allowed, false)
    );
}

#[tokio::test]
async fn the_failure_choice_of_a_call_wins_over_that_of_its_policy() {
    let stopped = Server::start();
    stopped.stop();
    let store = RedisStore::connect(&stopped.url()).expect("a store");
    open_the_breaker(&store).await;
    let open = policy(OnStoreFailure::Open);
    for (choice, expected) in [
        (OnStoreFailure::Closed, Reason::StoreUnavailable),
        (OnStoreFailure::Open, Reason::Allowed),
        (local(), Reason::Allowed),
    ] {
        let decision = store
            .decide(Op::Check, &open.clone().with_on_store_failure(choice), &key(), Cost::ONE)
            .await
            .expect("a decision");
        assert_eq!(reason_and_degraded(decision), (expected, true), "{choice:?}");
    }
}

#[tokio::test]
async fn an_unstable_connection_does_not_refill_the_local_share() {
    let server = Server::start();
    let store =
        RedisStore::builder(&server.url()).probe_interval(Duration::from_millis(20)).connect().expect("a store");
    store.ready().await;
    let policy = policy(local());
    let mut admitted = 0;
    for _ in 0..3 {
        server.kill();
        open_the_breaker(&store).await;
        for _ in 0..30 {
            let decision = store.check(&policy, &key(), Cost::ONE).await.expect("a decision");
            assert!(decision.is_degraded());
            admitted += u64::from(decision.is_allowed());
        }
        assert_eq!(admitted, 25, "a quarter of 100, once");
        server.restart();
        store.ready().await;
    }
    let limited = {
        server.kill();
        open_the_breaker(&store).await;
        store.check(&policy, &key(), Cost::ONE).await.expect("a decision")
    };
    assert_eq!(reason_and_degraded(limited), (Reason::Limited, true));
    assert!(limited.retry_after().expect("a wait") > Duration::from_secs(3000), "an honest wait: {limited:?}");
}

#[tokio::test]
async fn one_decision_over_several_keys_is_all_or_nothing_without_redis() {
    let stopped = Server::start();
    stopped.stop();
    let store = RedisStore::connect(&stopped.url()).expect("a store");
    open_the_breaker(&store).await;
    let (counted, closed) = (policy(local()), policy(OnStoreFailure::Closed));
    let (one, two) = (key(), Key::new("another").expect("a key"));
    let spends =
        [Spend { policy: &counted, key: &one, cost: Cost::ONE }, Spend { policy: &closed, key: &two, cost: Cost::ONE }];
    let before = store.stats();
    let decisions = store.check_all(&spends).await.expect("well-formed");
    assert_eq!(reason_and_degraded(decisions.overall), (Reason::StoreUnavailable, true));
    let after = store.stats();
    let parts = (after.degraded_local - before.degraded_local, after.degraded_closed - before.degraded_closed);
    assert_eq!(parts, (1, 1), "each part is counted once");
    let alone = store.check(&counted, &one, Cost::new(25).expect("in range")).await.expect("a decision");
    assert_eq!(
        reason_and_degraded(alone),
        (Reason::Allowed, true),
        "nothing was charged by the decision that was denied"
    );
}

#[tokio::test]
async fn a_key_that_redis_has_denied_stays_denied_without_redis_until_it_is_reset() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(20)).connect().expect("a store");
    store.ready().await;
    let open = policy(OnStoreFailure::Open);
    let (limited, reset) = (Key::new("limited").expect("a key"), Key::new("reset").expect("a key"));
    let all = Cost::new(100).expect("in range");
    for key in [&limited, &reset] {
        assert!(store.check(&open, key, all).await.expect("a decision").is_allowed());
        assert_eq!(
            reason_and_degraded(store.check(&open, key, Cost::ONE).await.expect("a decision")),
            (Reason::Limited, false)
        );
    }
    assert!(store.reset(&open, &reset).await.expect("redis answers"));
    server.kill();
    open_the_breaker(&store).await;
    let denied = store.check(&open, &limited, Cost::ONE).await.expect("a decision");
    assert_eq!(reason_and_degraded(denied), (Reason::Limited, true));
    assert!(denied.retry_after().expect("a wait") <= Duration::from_secs(3600), "{denied:?}");
    assert_eq!(
        reason_and_degraded(store.check(&open, &limited, Cost::new(2).expect("in range")).await.expect("a decision")),
        (Reason::Limited, true)
    );
    assert_eq!(
        reason_and_degraded(store.check(&open, &reset, Cost::ONE).await.expect("a decision")),
        (Reason::Allowed, true)
    );
    let spends = [&limited, &reset].map(|key| Spend { policy: &open, key, cost: Cost::ONE });
    assert_eq!(store.check_all(&spends).await.expect("well-formed").overall.reason(), Reason::Limited);
    let wider = Policy::new("api", ["200/1h".parse().expect("a limit")]).expect("a policy");
    assert_eq!(
        reason_and_degraded(store.check(&wider, &limited, Cost::ONE).await.expect("a decision")),
        (Reason::Allowed, true),
        "other limits"
    );
}

/// Returns how many requests are admitted without Redis, for this cause.
async fn admitted_without_redis(store: &RedisStore, policy: &Policy, cause: &str) -> u64 {
    let mut admitted = 0;
    for _ in 0..50 {
        let decision = store.check(policy, &key(), Cost::ONE).await.expect("a decision");
        assert!(decision.is_degraded(), "{cause}");
        admitted += u64::from(decision.is_allowed());
    }
    assert!(store.stats().errors.contains_key(cause), "{:?}", store.stats());
    admitted
}

#[tokio::test(flavor = "multi_thread")]
async fn open_admits_no_more_than_the_limit_while_redis_is_out_of_memory() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(20)).connect().expect("a store");
    store.ready().await;
    let open = Policy::new("few", ["5/1h".parse().expect("a limit")]).expect("a policy");
    assert_eq!(
        reason_and_degraded(store.check(&open, &key(), Cost::ONE).await.expect("a decision")),
        (Reason::Allowed, false)
    );
    server.wire().command(["CONFIG", "SET", "maxmemory", "1"]).expect_ok();
    assert_eq!(admitted_without_redis(&store, &open, "out_of_memory").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_admits_no_more_than_the_limit_while_redis_is_too_slow() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let store = RedisStore::builder(&proxy.url()).timeout(Duration::from_millis(100));
    let store = store.connect_timeout(Duration::from_secs(20)).connect().expect("a store");
    store.ready().await;
    let open = Policy::new("few", ["5/1h".parse().expect("a limit")]).expect("a policy");
    // The server is so slow that it seems silent until a probe is answered late.
    proxy.set_delay(Duration::from_millis(500));
    while !store.degradations().iter().any(|one| one.cause == "too_slow") {
        let _ = store.peek(&open, &key(), Cost::ONE).await.expect("a decision");
        tokio::task::yield_now().await;
    }
    assert_eq!(admitted_without_redis(&store, &open, "too_slow").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_waits_for_room_in_a_full_queue() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(20)).queue(1).batch(1);
    let store = store.connect().expect("a store");
    store.ready().await;
    let open = policy(OnStoreFailure::Open);
    assert!(store.check(&open, &key(), Cost::ONE).await.expect("a decision").is_allowed());
    let calls = store.stats().calls;
    server.pause();
    let overloaded = || store.stats().errors.get("overloaded").copied().unwrap_or(0);
    let check = || {
        let (store, open) = (store.clone(), open.clone());
        tokio::spawn(async move { store.check(&open, &key(), Cost::ONE).await.expect("a decision") })
    };
    // Three calls are under way at most, and one request waits in the queue. All others are shed.
    let mut checks = Vec::new();
    while store.stats().calls < calls + 3 {
        checks.push(check());
        tokio::task::yield_now().await;
    }
    checks.push(check());
    while overloaded() + 4 < checks.len() as u64 {
        tokio::task::yield_now().await;
    }
    let key = key();
    let mut reset = std::pin::pin!(store.reset(&open, &key));
    assert!(reset.as_mut().now_or_never().is_none(), "it is not shed");
    server.resume();
    assert!(reset.await.expect("redis answers"));
    for check in checks {
        let _ = check.await.expect("it ends");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_queue_are_denied_although_the_choice_is_open() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(20)).queue(1).batch(1);
    let store = store.connect().expect("a store");
    store.ready().await;
    let open = policy(OnStoreFailure::Open);
    server.pause();
    let checks: Vec<_> = (0..50)
        .map(|_| {
            let (store, open) = (store.clone(), open.clone());
            tokio::spawn(async move { store.check(&open, &key(), Cost::ONE).await.expect("a decision") })
        })
        .collect();
    while store.stats().errors.get("overloaded").copied().unwrap_or(0) < 40 {
        tokio::task::yield_now().await;
    }
    assert!(store.degradations().iter().any(|one| one.cause == "overloaded"), "{:?}", store.degradations());
    server.resume();
    let (mut admitted, mut shed) = (0, 0);
    for check in checks {
        match reason_and_degraded(check.await.expect("it ends")) {
            (Reason::Allowed, false) => admitted += 1,
            (Reason::StoreUnavailable, true) => shed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(store.stats().errors["overloaded"], shed);
    assert_eq!(admitted + shed, 50);
}

#[tokio::test]
async fn a_banned_key_and_a_key_denied_in_one_decision_over_several_stay_denied_without_redis() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(20)).connect().expect("a store");
    store.ready().await;
    let open = policy(OnStoreFailure::Open);
    let keys = ["banned", "limited", "other", "removed"].map(|name| Key::new(name).expect("a key"));
    let [banned, limited, other, lifted] = &keys;
    for key in [banned, lifted] {
        store.set_override(&open, key, Override::ban()).await.expect("redis answers");
        assert_eq!(
            reason_and_degraded(store.check(&open, key, Cost::ONE).await.expect("a decision")),
            (Reason::Banned, false)
        );
    }
    store.remove_override(&open, lifted).await.expect("redis answers");
    assert!(store.check(&open, limited, Cost::new(100).expect("in range")).await.expect("a decision").is_allowed());
    let spends = [limited, other].map(|key| Spend { policy: &open, key, cost: Cost::ONE });
    assert_eq!(
        reason_and_degraded(store.check_all(&spends).await.expect("well-formed").overall),
        (Reason::Limited, false)
    );
    server.kill();
    open_the_breaker(&store).await;
    assert_eq!(
        reason_and_degraded(store.check(&open, banned, Cost::ONE).await.expect("a decision")),
        (Reason::Banned, true)
    );
    assert_eq!(
        reason_and_degraded(store.check(&open, limited, Cost::ONE).await.expect("a decision")),
        (Reason::Limited, true)
    );
    for key in [other, lifted] {
        assert_eq!(
            reason_and_degraded(store.check(&open, key, Cost::ONE).await.expect("a decision")),
            (Reason::Allowed, true)
        );
    }
}

#[tokio::test]
async fn a_denial_is_removed_when_redis_admits_the_key_again() {
    let server = Server::start();
    let store_with_long_timeout =
        || RedisStore::builder(&server.url()).timeout(Duration::from_secs(20)).connect().expect("a store");
    let (store, elsewhere) = (store_with_long_timeout(), store_with_long_timeout());
    store.ready().await;
    elsewhere.ready().await;
    let open = policy(OnStoreFailure::Open);
    let all = Cost::new(100).expect("in range");
    assert!(store.check(&open, &key(), all).await.expect("a decision").is_allowed());
    assert_eq!(
        reason_and_degraded(store.check(&open, &key(), Cost::ONE).await.expect("a decision")),
        (Reason::Limited, false)
    );
    assert!(elsewhere.reset(&open, &key()).await.expect("redis answers"));
    assert_eq!(
        reason_and_degraded(store.check(&open, &key(), Cost::ONE).await.expect("a decision")),
        (Reason::Allowed, false)
    );
    server.kill();
    open_the_breaker(&store).await;
    assert_eq!(
        reason_and_degraded(store.check(&open, &key(), Cost::ONE).await.expect("a decision")),
        (Reason::Allowed, true)
    );
}
