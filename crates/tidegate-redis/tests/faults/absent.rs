//! Redis is not there at the start.

use std::time::Instant;

use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

use crate::{
    account::{Account, Promise},
    load::Load,
};

#[test]
fn a_store_is_there_before_its_server_and_finds_it_when_it_comes() {
    let server = Server::start();
    server.kill();
    let load = Load::start_without_redis(RedisStore::builder(&server.url()));
    load.suffer(5_000);
    server.restart();
    let answered = Instant::now();
    load.proceed();
    let account = Account::of(&load.stop(), &server.url(), Promise::KeepsAll, Some(answered));
    account.print("absent at start", Promise::KeepsAll);
    assert!(account.stats.breaker_opened > 0 && account.stats.breaker_closed > 0);
}
