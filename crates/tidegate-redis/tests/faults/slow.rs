//! Redis answers, but later than the timeout.

use std::time::{Duration, Instant};

use tidegate::Store as _;
use tidegate_redis::{BreakerState, RedisStore};
use tidegate_testbed::{Proxy, Server};

use crate::{
    subjects::{cost, key, roomy},
    waiting::wait_until,
};

fn breaker(store: &RedisStore) -> BreakerState {
    store.breakers()[0].1
}

fn causes(store: &RedisStore) -> Vec<&'static str> {
    store.degradations().iter().map(|one| one.cause).collect()
}

/// Delays answers by this many timeouts.
async fn delayed_by_timeouts(timeouts: u32) {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let timeout = Duration::from_millis(50);
    let store = RedisStore::builder(&proxy.url()).timeout(timeout).connect_timeout(Duration::from_secs(20));
    let store = store.connect().expect("a store");
    store.ready().await;
    let (policy, key) = (roomy(), key(0));
    while store.check(&policy, &key, cost(1)).await.expect("a decision").is_degraded() {}

    proxy.set_delay(timeouts * timeout);
    while !causes(&store).contains(&"too_slow") {
        assert!(
            store.check(&policy, &key, cost(1)).await.expect("a decision").is_degraded(),
            "nothing can be answered in time"
        );
        tokio::task::yield_now().await;
    }
    assert_ne!(breaker(&store), BreakerState::Closed);
    let found = store.degradations();
    let slow = found.iter().find(|one| one.cause == "too_slow").expect("it is reported");
    assert!(slow.detail.contains("50 ms") && slow.cure.contains("store.timeout"), "{slow:?}");
    let calls = store.stats().calls;
    // During the delay no probe is fast, so the breaker stays open and no request waits for Redis.
    for _ in 0..1_000 {
        assert!(store.check(&policy, &key, cost(1)).await.expect("a decision").is_degraded());
    }
    assert_eq!(store.stats().calls, calls, "no request was sent");
    assert_ne!(breaker(&store), BreakerState::Closed);

    proxy.set_delay(Duration::ZERO);
    wait_until("the breaker to close", || breaker(&store) == BreakerState::Closed);
    assert!(!causes(&store).contains(&"too_slow"));
    while store.check(&policy, &key, cost(1)).await.expect("a decision").is_degraded() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_slower_than_the_timeout_opens_the_breaker_until_it_is_fast_again() {
    delayed_by_timeouts(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reachable_server_does_not_close_the_breaker_while_its_answers_are_late() {
    delayed_by_timeouts(8).await;
}

/// `cargo test --release -p tidegate-redis --test faults -- --ignored --nocapture too_far_away`
#[ignore = "it prints the duration of decisions"]
#[tokio::test(flavor = "multi_thread")]
async fn decisions_while_redis_is_too_far_away() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let store = RedisStore::connect(&proxy.url()).expect("a store");
    store.ready().await;
    proxy.set_delay(Duration::from_millis(30));
    let (policy, key) = (roomy(), key(0));
    let began = Instant::now();
    let mut took = Vec::new();
    while began.elapsed() < Duration::from_secs(3) {
        let kind = Instant::now();
        let _ = store.check(&policy, &key, cost(1)).await.expect("a decision");
        if began.elapsed() > Duration::from_secs(1) {
            took.push(kind.elapsed());
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
    }
    took.sort_unstable();
    let at = |share: usize| took[took.len() * share / 1000];
    println!(
        "redis 30 ms away, timeout 15 ms, after one second: {} decisions, median {:?}, p99 {:?}, p99.9 {:?}; {:?}",
        took.len(),
        at(500),
        at(990),
        at(999),
        causes(&store),
    );
}
