//! Redis is not running at the start.

use std::time::Instant;

use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

use crate::{
    account::{Account, Promise},
    load::Load,
};

#[test]
fn a_store_that_starts_before_its_server_connects_when_the_server_starts() {
    let server = Server::start();
    server.kill();
    let load = Load::start_without_redis(RedisStore::builder(&server.url()));
    load.wait_for_degraded(5_000);
    server.restart();
    let answered = Instant::now();
    load.wait_for_progress();
    let account = Account::of(&load.stop(), &server.url(), Promise::KeepsAll, Some(answered));
    account.print("absent at start", Promise::KeepsAll);
    assert!(account.stats.breaker_opened > 0 && account.stats.breaker_closed > 0);
}
