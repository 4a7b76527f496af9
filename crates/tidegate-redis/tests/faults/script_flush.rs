//! `SCRIPT FLUSH`: the server deletes the script.

use std::time::Duration;

use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

use crate::{
    account::{Account, Promise},
    load::Load,
};

#[test]
fn a_flushed_script_is_loaded_again_without_a_degraded_decision() {
    let server = Server::start();
    // Long enough for any machine: no decision of this run has a reason to be made without Redis.
    let load = Load::start(RedisStore::builder(&server.url()).timeout(Duration::from_secs(5)));
    load.wait_for_progress();
    for _ in 0..20 {
        server.wire().command(["SCRIPT", "FLUSH"]).expect_ok();
        load.wait_for_requests(500);
    }
    load.wait_for_progress();
    let account = Account::of(&load.stop(), &server.url(), Promise::KeepsAll, None);
    account.print("`SCRIPT FLUSH`, 20 times (timeout 5 s)", Promise::KeepsAll);
    assert_eq!((account.degraded(), account.failed.len()), (0, 0), "{account:?}");
    assert!(account.stats.scripts_loaded > 20 && account.stats.sent_again > 0, "{account:?}");
    assert_eq!(account.stats.connections, 1);
}
