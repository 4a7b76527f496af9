//! A slot moves to another master while its keys are charged.

use std::time::Duration;

use tidegate_redis::RedisStore;
use tidegate_testbed::Cluster;

use crate::{
    account::{Account, Promise},
    load::Load,
    subjects::{key, roomy},
};

#[test]
fn a_slot_that_moves_under_load_keeps_its_charges() {
    let cluster = Cluster::start(2, 0);
    // Long enough for any machine: no decision of this run has a reason to be made without Redis.
    let load = Load::start(RedisStore::builder(&cluster.url()).timeout(Duration::from_secs(5)));
    load.wait_for_progress();
    let slot = cluster.key_slot(load.store.key_name(&roomy(), &key(0)));
    for _ in 0..2 {
        let to = 1 - cluster.master_of_slot(slot);
        let moving = cluster.begin_move(slot, to);
        load.wait_for_progress();
        // One of the subject's two keys has moved and one has not.
        assert_eq!(moving.move_keys(1), 1);
        load.wait_for_progress();
        moving.finish();
        load.wait_for_progress();
    }
    let account = Account::of(&load.stop(), &cluster.url(), Promise::KeepsAll, None);
    account.print("a slot resharded, there and back (timeout 5 s)", Promise::KeepsAll);
    assert_eq!((account.degraded(), account.failed.len()), (0, 0), "{account:?}");
    assert!(account.stats.redirected > 0, "{account:?}");
}
