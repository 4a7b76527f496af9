//! A master dies, and the sentinels elect another.

use std::time::Instant;

use tidegate_redis::RedisStore;
use tidegate_testbed::Sentinel;

use crate::{
    account::{Account, Promise},
    load::Load,
    subjects::SUBJECTS,
    waiting::wall_clock,
};

#[test]
fn after_a_failover_the_new_master_decides_and_only_the_last_charges_may_be_lost() {
    let watched = Sentinel::start(1, 3);
    let load = Load::start(RedisStore::builder(&watched.url()));
    load.wait_for_progress();
    watched.kill_master();
    let killed = wall_clock();
    load.wait_for_degraded(2_000);
    watched.wait_for_failover();
    let answered = Instant::now();
    load.wait_for_progress();
    let promise = Promise::LosesSome { until: killed, of: [true; SUBJECTS] };
    let account = Account::of(&load.stop(), &watched.url(), promise, Some(answered));
    account.print("failover of a master, Sentinel", promise);
}
