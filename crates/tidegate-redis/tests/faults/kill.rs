//! `kill -9`, and a restart.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate::Store as _;
use tidegate_redis::{BreakerState, RedisStore};
use tidegate_testbed::{Server, ServerBuilder};

use crate::{
    account::{Account, Promise},
    load::Load,
    subjects::{cost, key, roomy},
    waiting::wall_clock,
};

fn kill_and_restart(server: ServerBuilder, fault: &str, promise: impl FnOnce(tidegate::Timestamp) -> Promise) {
    let server = server.start();
    let load = Load::start(RedisStore::builder(&server.url()));
    load.wait_for_progress();
    server.kill();
    let killed = wall_clock();
    load.wait_for_degraded(2_000);
    server.restart();
    let answered = Instant::now();
    load.wait_for_progress();
    let promise = promise(killed);
    let account = Account::of(&load.stop(), &server.url(), promise, Some(answered));
    account.print(fault, promise);
    assert!(account.stats.breaker_opened > 0 && account.stats.breaker_closed > 0);
}

#[test]
fn a_killed_server_without_persistence_loses_its_windows_once() {
    kill_and_restart(Server::builder(), "`kill -9`, nothing on disk", |until| Promise::LosesAll { until });
}

#[test]
fn a_killed_server_that_writes_every_command_to_disk_loses_nothing() {
    let server = Server::builder().persist();
    kill_and_restart(server, "`kill -9`, `appendfsync always`", |_| Promise::KeepsAll);
}

/// Decisions have a long timeout, so that only the store itself can refuse them.
#[tokio::test]
async fn the_first_probe_after_a_restart_succeeds_and_no_decision_fails_from_then_on() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url())
        .timeout(Duration::from_secs(20))
        .connect_timeout(Duration::from_secs(20))
        .connect()
        .expect("a store");
    store.ready().await;
    let (policy, key) = (roomy(), key(0));
    for losses in 1..=3 {
        server.kill();
        while store.breakers()[0].1 == BreakerState::Closed {
            let _ = store.check(&policy, &key, cost(1)).await.expect("a decision");
        }
        server.restart();
        store.ready().await;
        let stats = store.stats();
        assert_eq!((stats.connections, stats.breaker_closed), (1 + losses, losses), "{stats:?}");
        let decisions =
            join_all((0..100).map(async |_| store.check(&policy, &key, cost(1)).await.expect("a decision"))).await;
        assert!(decisions.iter().all(|decision| decision.is_allowed() && !decision.is_degraded()));
    }
}
