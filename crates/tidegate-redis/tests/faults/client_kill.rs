//! `CLIENT KILL`: the server closes the connection.

use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

use crate::{
    account::{Account, Promise},
    load::Load,
};

#[test]
fn a_closed_connection_is_reopened_and_outstanding_requests_are_not_sent_again() {
    let server = Server::start();
    let load = Load::start(RedisStore::builder(&server.url()));
    load.wait_for_progress();
    let mut wire = server.wire();
    let mut killed = 0;
    while killed < 20 {
        killed += wire.command(["CLIENT", "KILL", "TYPE", "normal"]).integer();
        load.wait_for_requests(1_000);
    }
    load.wait_for_progress();
    let account = Account::of(&load.stop(), &server.url(), Promise::KeepsAll, None);
    account.print("`CLIENT KILL`, 20 times", Promise::KeepsAll);
    assert!(account.stats.connections > 1, "{account:?}");
}
