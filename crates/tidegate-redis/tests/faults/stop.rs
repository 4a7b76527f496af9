//! `SIGSTOP`, and `SIGCONT` after a while: connections stay open, and requests are read late.

use std::{
    thread,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tidegate::{Decision, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

use crate::{
    account::{Account, Promise},
    load::Load,
    subjects::{cost, key, roomy},
};

#[test]
fn a_stopped_server_causes_timeouts_only_while_it_is_stopped() {
    let server = Server::start();
    let load = Load::start(RedisStore::builder(&server.url()));
    load.wait_for_progress();
    server.pause();
    load.wait_for_degraded(2_000);
    thread::sleep(Duration::from_secs(2));
    server.resume();
    server.wire().command(["PING"]);
    let answered = Instant::now();
    load.wait_for_progress();
    let account = Account::of(&load.stop(), &server.url(), Promise::KeepsAll, Some(answered));
    account.print("`SIGSTOP` for 2 s", Promise::KeepsAll);
    assert!(account.stats.errors["timeout"] > 0 && account.stats.breaker_opened > 0, "{account:?}");
}

/// No request is under way when the server stops, so every additional unit in Redis was charged after its deadline.
#[tokio::test]
async fn a_request_that_reaches_redis_after_its_deadline_charges_nothing_and_is_not_sent_again() {
    let server = Server::start();
    let store_with_long_timeout =
        RedisStore::builder(&server.url()).timeout(Duration::from_secs(5)).connect().expect("a store");
    // The breaker stays closed, so that requests are sent.
    let store = RedisStore::builder(&server.url()).breaker_after(u32::MAX).connect().expect("a store");
    store_with_long_timeout.ready().await;
    store.ready().await;
    let (policy, key) = (roomy(), key(0));
    let admitted = join_all(
        (0..100).map(async |_| store_with_long_timeout.check(&policy, &key, cost(1)).await.expect("a decision")),
    )
    .await;
    assert!(admitted.iter().all(|decision| decision.is_allowed() && !decision.is_degraded()));
    server.pause();
    for _ in 0..5 {
        let decisions =
            join_all((0..400).map(async |_| store.check(&policy, &key, cost(1)).await.expect("a decision"))).await;
        assert!(decisions.iter().all(Decision::is_degraded), "the server is stopped");
    }
    assert!(store.stats().batched > 0, "some requests were sent");
    thread::sleep(Duration::from_secs(1));
    server.resume();
    // This uses the same connection, so it is executed after all earlier requests.
    while store.inspect(&policy, &key).await.is_err() {}
    let held = store_with_long_timeout.inspect(&policy, &key).await.expect("redis answers").expect("charges");
    let stats = store.stats();
    assert_eq!(held.limits[0].used, 100, "{stats:?}");
    // While many requests are outstanding, a late answer is overload until the server has been silent for a while.
    let late = stats.errors["timeout"] + stats.errors.get("overloaded").copied().unwrap_or(0);
    assert_eq!((stats.connections, stats.sent_again, late), (1, 0, 2_000), "{stats:?}");
}
