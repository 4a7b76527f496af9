//! `CLIENT KILL`: the server closes the connection.

use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

use crate::{
    account::{Account, Promise},
    load::Load,
};

#[test]
fn a_closed_connection_is_made_again_and_what_was_under_way_is_not_sent_again() {
    let server = Server::start();
    let load = Load::start(RedisStore::builder(&server.url()));
    load.proceed();
    let mut wire = server.wire();
    let mut killed = 0;
    while killed < 20 {
        killed += wire.command(["CLIENT", "KILL", "TYPE", "normal"]).integer();
        load.ask_more(1_000);
    }
    load.proceed();
    let account = Account::of(&load.stop(), &server.url(), Promise::KeepsAll, None);
    account.print("`CLIENT KILL`, 20 times", Promise::KeepsAll);
    assert!(account.stats.connections > 1, "{account:?}");
}
