//! A master dies, and the sentinels name another.

use std::time::Instant;

use tidegate_redis::RedisStore;
use tidegate_testbed::Sentinel;

use crate::{
    account::{Account, Promise},
    load::Load,
    patience::wall_clock,
    subjects::SUBJECTS,
};

#[test]
fn after_a_failover_the_new_master_is_asked_and_only_the_last_charges_may_be_lost() {
    let watched = Sentinel::start(1, 3);
    let load = Load::start(RedisStore::builder(&watched.url()));
    load.proceed();
    watched.kill_master();
    let killed = wall_clock();
    load.suffer(2_000);
    watched.wait_for_failover();
    let answered = Instant::now();
    load.proceed();
    let promise = Promise::LosesSome { until: killed, of: [true; SUBJECTS] };
    let account = Account::of(&load.stop(), &watched.url(), promise, Some(answered));
    account.print("failover of a master, Sentinel", promise);
}
