//! Keys in Redis: each has an expiry, and in the end none is left.

use std::time::Duration;

use tidegate::{Algorithm, Buckets, Cost, Key, Op, Policy, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::{Server, Wire};

fn algorithms() -> [Algorithm; 6] {
    let buckets = |n| Algorithm::SlidingBuckets(Buckets::new(n).expect("in range"));
    [
        Algorithm::SlidingLog,
        Algorithm::SlidingCounter,
        buckets(1),
        buckets(10),
        Algorithm::FixedWindow,
        Algorithm::Gcra(None),
    ]
}

fn policies(limits: &[&str]) -> Vec<Policy> {
    let policy = |(i, algorithm)| {
        let limits = limits.iter().map(|limit| limit.parse().expect("a limit"));
        Policy::new(&format!("p{i}"), limits).expect("a policy").with_algorithm(algorithm)
    };
    algorithms().into_iter().enumerate().map(policy).collect()
}

fn keys(wire: &mut Wire) -> Vec<Vec<u8>> {
    let found = wire.command(["KEYS", "*"]);
    found.array().iter().map(|key| key.bulk().expect("a name").to_vec()).collect()
}

/// Charges, refunds and changes of algorithm, on the server's clock.
async fn use_all(store: &RedisStore, limits: &[&str]) {
    let key = Key::new("somebody {with} braces:*").expect("a key");
    for policy in policies(limits) {
        for _ in 0..3 {
            let decision = store.check(&policy, &key, Cost::new(2).expect("in range")).await.expect("a decision");
            assert!(!decision.is_degraded());
            if let Some(charged_at) = decision.charged_at() {
                store.refund(&policy, &key, Cost::ONE, charged_at).await.expect("redis answers");
            }
        }
        for algorithm in algorithms() {
            let changed = policy.clone().with_algorithm(algorithm);
            let _ = store.charge(&changed, &key, Cost::ONE).await.expect("a decision");
            let _ = store.inspect(&changed, &key).await.expect("redis answers");
        }
    }
}

#[tokio::test]
async fn every_key_has_an_expiry_that_outlives_what_is_counted() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(10)).connect().expect("a store");
    store.ready().await;
    let mut wire = server.wire();
    let key = Key::new("somebody").expect("a key");
    for limits in [&["10/1h"][..], &["5/1m", "10/1h"]] {
        for policy in policies(limits) {
            for op in [Op::Check, Op::Charge, Op::Charge, Op::Check, Op::Peek] {
                let cost = Cost::new(4).expect("in range");
                let decision = store.decide(op, &policy, &key, cost).await.expect("a decision");
                let left = wire.command([&b"PTTL"[..], &store.key_name(&policy, &key)]).integer();
                let counted = i64::try_from(decision.reset_after().as_millis()).expect("short");
                // The wait has become shorter since the decision.
                assert!(
                    left > counted - 5_000 && left <= 3 * 3_600_000 + 1_000,
                    "{left} of {decision:?} under {policy:?}"
                );
                let longest = 3_600_000 - 5_000;
                assert!(left > longest, "a charge must be kept until the longest window has passed: {left}");
            }
        }
    }
    use_all(&store, &["5/1m", "10/1h"]).await;
    for name in keys(&mut wire) {
        assert!(wire.command([&b"PTTL"[..], &name]).integer() > 0, "{}", String::from_utf8_lossy(&name));
    }
}

#[tokio::test]
async fn after_the_window_nothing_is_left() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(10)).connect().expect("a store");
    store.ready().await;
    use_all(&store, &["5/100ms", "10/200ms"]).await;
    let mut wire = server.wire();
    // Redis uses its own clock. The duration does not matter, only that it ends.
    while wire.command(["DBSIZE"]).integer() > 0 {
        for name in keys(&mut wire) {
            assert_ne!(wire.command([&b"PTTL"[..], &name]).integer(), -1, "a key without an expiry");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn no_command_touches_a_key_that_is_not_ours() {
    let server = Server::start();
    let mut wire = server.wire();
    for (key, value) in [("tg", "1"), ("other", "2"), ("tg:", "3"), ("somebody", "4")] {
        wire.command(["SET", key, value]).expect_ok();
    }
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(10)).connect().expect("a store");
    store.ready().await;
    let mut monitor = server.wire();
    monitor.command(["MONITOR"]).expect_ok();
    use_all(&store, &["5/1m", "10/1h"]).await;
    let key = Key::new("somebody").expect("a key");
    for policy in policies(&["10/1h"]) {
        let _ = store.check(&policy, &key, Cost::ONE).await.expect("a decision");
        assert!(store.reset(&policy, &key).await.expect("redis answers"));
    }
    wire.command(["PING"]);
    let mut seen = 0;
    loop {
        let line = monitor.read().as_str_lossy().into_owned();
        if line.contains("\"PING\"") {
            break;
        }
        let Some((_, command)) = line.split_once(" lua] ") else { continue };
        let text: Vec<_> = command.split('"').skip(1).step_by(2).collect();
        seen += 1;
        match text[0] {
            "TIME" => {}
            "GET" | "MGET" | "SET" | "SETRANGE" | "APPEND" | "HGET" | "HSET" | "HDEL" | "DEL" | "EXISTS"
            | "PEXPIRE" => {
                assert!(text[1].starts_with("tg:{") && text[1].len() > 31, "{line}");
            }
            _ => panic!("an unexpected command: {line}"),
        }
    }
    assert!(seen > 100, "MONITOR saw only {seen} commands");
    for (key, value) in [("tg", "1"), ("other", "2"), ("tg:", "3"), ("somebody", "4")] {
        assert_eq!(wire.command(["GET", key]).bulk(), Some(value.as_bytes()));
    }
}
