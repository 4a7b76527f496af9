//! A master of a cluster dies, and its replica takes over.

use std::{array, time::Instant};

use tidegate_redis::RedisStore;
use tidegate_testbed::Cluster;

use crate::{
    account::{Account, Promise},
    load::Load,
    subjects::{SUBJECTS, key, roomy},
    waiting::wall_clock,
};

#[test]
fn after_a_failover_the_replica_decides_and_only_the_last_charges_of_its_slots_may_be_lost() {
    let cluster = Cluster::start_with(3, 1, &[("cluster-node-timeout", "1000")]);
    let load = Load::start(RedisStore::builder(&cluster.url()));
    let master = |subject| cluster.master_of_slot(cluster.key_slot(load.store.key_name(&roomy(), &key(subject))));
    let masters: [usize; SUBJECTS] = array::from_fn(master);
    load.wait_for_progress();
    cluster.nodes()[masters[0]].kill();
    let killed = wall_clock();
    load.wait_for_degraded(500);
    cluster.settle();
    let answered = Instant::now();
    load.wait_for_progress();
    let promise = Promise::LosesSome { until: killed, of: array::from_fn(|i| masters[i] == masters[0]) };
    let account = Account::of(&load.stop(), &cluster.url(), promise, Some(answered));
    account.print("failover of a master, Cluster", promise);
}
