//! Requests that wait at the same time are sent as one call.

use std::time::Duration;

use tidegate::{Cost, Key, OnStoreFailure, Policy, Reason, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

async fn store_with_long_timeout(server: &Server) -> RedisStore {
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(30)).connect().expect("a store");
    store.ready().await;
    store
}

fn policy(name: &str, limit: &str) -> Policy {
    Policy::new(name, [limit.parse().expect("a limit")]).expect("a policy")
}

/// Waits until this many calls were sent.
async fn calls(store: &RedisStore, calls: u64) {
    while store.stats().calls < calls {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_value_at_position_17_of_32_fails_only_its_own_decision() {
    let server = Server::start();
    let store = store_with_long_timeout(&server).await;
    let policy = policy("api", "3/1h").with_on_store_failure(OnStoreFailure::Closed);
    let key = |i: usize| Key::new(&format!("user-{i}")).expect("a key").into_owned();
    server.wire().command([&b"LPUSH"[..], &store.key_name(&policy, &key(17)), b"not ours"]).integer();

    // While the server is stopped, two calls are under way and all other requests wait.
    server.pause();
    let decide_one = |i: usize| {
        let (store, policy, key) = (store.clone(), policy.clone(), key(i));
        tokio::spawn(async move { store.check(&policy, &key, Cost::ONE).await.expect("a decision") })
    };
    let first = decide_one(100);
    calls(&store, 1).await;
    let second = decide_one(101);
    calls(&store, 2).await;
    let batch: Vec<_> = (1..=32).map(decide_one).collect();
    // All requests are waiting once a task that was spawned after them has run as often as they have.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    server.resume();
    for alone in [first, second] {
        assert_eq!(alone.await.expect("it ends").reason(), Reason::Allowed);
    }
    for (i, decision) in (1..=32).zip(batch) {
        let decision = decision.await.expect("it ends");
        if i == 17 {
            assert_eq!(decision.reason(), Reason::StoreUnavailable, "{decision:?}");
            assert!(decision.is_degraded());
        } else {
            assert_eq!(
                (decision.reason(), decision.used(), decision.is_degraded()),
                (Reason::Allowed, 1, false),
                "{i}"
            );
        }
    }
    assert_eq!(store.stats().errors.get("wrong_type"), Some(&1));
    assert_eq!(store.stats().batched, 34);
    assert!(store.stats().calls <= 4, "{:?}", store.stats());
    for i in (1..=32).filter(|i| *i != 17) {
        let shown = store.inspect(&policy, &key(i)).await.expect("redis answers").expect("a state");
        assert_eq!(shown.limits[0].used, 1, "charged once: {i}");
    }
    let length = server.wire().command([&b"LLEN"[..], &store.key_name(&policy, &key(17))]).integer();
    assert_eq!(length, 1, "what is not ours is left as it is");
}

#[tokio::test]
async fn a_single_request_is_one_call() {
    let server = Server::start();
    let store = store_with_long_timeout(&server).await;
    let policy = policy("api", "100/1h");
    for used in 1..=20 {
        let decision = store.check(&policy, &Key::new("alone").expect("a key"), Cost::ONE).await.expect("a decision");
        assert_eq!((decision.used(), store.stats().calls), (used, used));
    }
}

#[tokio::test]
async fn a_flushed_script_is_loaded_again_and_nothing_is_charged_twice() {
    let server = Server::start();
    let store = store_with_long_timeout(&server).await;
    let policy = policy("api", "100/1h");
    let key = Key::new("flushed").expect("a key");
    for used in 1..=5 {
        server.wire().command(["SCRIPT", "FLUSH"]).expect_ok();
        let decision = store.check(&policy, &key, Cost::ONE).await.expect("a decision");
        assert_eq!((decision.reason(), decision.used(), decision.is_degraded()), (Reason::Allowed, used, false));
    }
    assert_eq!(store.stats().scripts_loaded, 6);
    assert_eq!(store.stats().sent_again, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_state_and_a_foreign_hash_fail_only_their_own_decisions_and_are_reported() {
    let server = Server::start();
    let store = store_with_long_timeout(&server).await;
    let log = policy("log", "100/1h").with_on_store_failure(OnStoreFailure::Closed);
    let counter = policy("counter", "100/1h").with_algorithm(tidegate::Algorithm::SlidingCounter);
    let counter = counter.with_on_store_failure(OnStoreFailure::Closed);
    let key = |name: &'static str| Key::new(name).expect("a key");
    let mut wire = server.wire();
    for policy in [&log, &counter] {
        wire.command([&b"HSET"[..], &store.key_name(policy, &key("foreign")), b"theirs", b"1"]).integer();
    }
    // A log that is a string, and one that is a hash.
    let limits = ["100/1h".parse().expect("a limit"), "1000/1d".parse().expect("a limit")];
    let both = Policy::new("both", limits).expect("a policy").with_on_store_failure(OnStoreFailure::Closed);
    let mut whole = Vec::new();
    for (policy, read) in [(&log, "GET"), (&both, "HGET")] {
        let _ = store.check(policy, &key("cut"), Cost::ONE).await.expect("a decision");
        let (name, field) = (store.key_name(policy, &key("cut")), b"h".to_vec());
        let mut question = vec![read.as_bytes().to_vec(), name];
        question.extend((read == "HGET").then_some(field));
        whole.push(wire.command(question).bulk().expect("a state").to_vec());
    }
    for length in [3, 17, 18, 32, 41, 42, 90, 104, usize::MAX] {
        let cut = |whole: &[u8]| whole[..length.min(whole.len() - 1)].to_vec();
        wire.command([b"SET".to_vec(), store.key_name(&log, &key("cut")), cut(&whole[0])]).expect_ok();
        wire.command([b"HSET".to_vec(), store.key_name(&both, &key("cut")), b"h".to_vec(), cut(&whole[1])]).integer();
        server.pause();
        let decide_one = |policy: &Policy, name: &'static str| {
            let (store, policy) = (store.clone(), policy.clone());
            tokio::spawn(async move { store.check(&policy, &key(name), Cost::ONE).await.expect("a decision") })
        };
        let requested = [
            (&log, "foreign"),
            (&log, "cut"),
            (&log, "fine"),
            (&both, "cut"),
            (&counter, "foreign"),
            (&counter, "fine"),
        ];
        let requested: Vec<_> = requested.into_iter().map(|(policy, name)| (name, decide_one(policy, name))).collect();
        server.resume();
        for (name, decision) in requested {
            let decision = decision.await.expect("it ends");
            let expected = if name == "fine" { Reason::Allowed } else { Reason::StoreUnavailable };
            assert_eq!(decision.reason(), expected, "{name}, cut at {length}");
        }
    }
    assert!(
        store.reset(&log, &key("cut")).await.expect("redis answers"),
        "what is ours can be forgotten, damaged or not"
    );
    for policy in [&log, &counter] {
        let denied = store.charge(policy, &key("foreign"), Cost::ONE).await.expect("a decision");
        assert_eq!(denied.reason(), Reason::StoreUnavailable);
        let length = wire.command([&b"HLEN"[..], &store.key_name(policy, &key("foreign"))]).integer();
        assert_eq!(length, 1, "what is not ours is left as it is");
    }
}
