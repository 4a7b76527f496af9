//! Each error that Redis tells, caused for real and handled by its name.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate::{Algorithm, Policy, Spend};
use tidegate_redis::{Error, RedisStore};
use tidegate_testbed::{Cluster, Server};

use crate::{
    patience::wait_until,
    subjects::{cost, key, roomy},
};

/// A store that waits as long as it takes: what it does not answer has another reason than a slow machine.
async fn patient(url: &str) -> RedisStore {
    let store = RedisStore::builder(url).timeout(Duration::from_secs(20)).connect().expect("a store");
    store.ready().await;
    store
}

/// So many requests are asked of an impatient store; if most of them timed out, its breaker would open.
const ASKED: u32 = 50;

/// A store that gives up soon enough for a test to wait for it. A slow machine may make it give up now and then, too.
async fn impatient(url: &str) -> RedisStore {
    let store = RedisStore::builder(url).timeout(Duration::from_millis(40)).breaker_after(ASKED * 2 / 5);
    let store = store.connect().expect("a store");
    store.ready().await;
    store
}

/// Decides so many requests of cost 1 at the same time; how many of them Redis admitted.
async fn admitted(store: &RedisStore, policy: &Policy, subject: usize, requests: usize) -> usize {
    let key = key(subject);
    let decisions = join_all((0..requests).map(|_| store.check(policy, &key, cost(1)))).await;
    decisions.iter().filter(|decision| decision.is_allowed() && !decision.is_degraded()).count()
}

async fn used(store: &RedisStore, policy: &Policy, subject: usize) -> u64 {
    let shown = store.inspect(policy, &key(subject)).await.expect("redis answers");
    shown.map_or(0, |shown| shown.limits[0].used)
}

/// How often a trouble was the reason to decide without Redis.
fn told(store: &RedisStore, trouble: &str) -> u64 {
    store.stats().troubles.get(trouble).copied().unwrap_or(0)
}

/// The master that a subject's keys are at.
fn master_of(cluster: &Cluster, store: &RedisStore, subject: usize) -> (u16, usize) {
    let slot = cluster.key_slot(store.key_name(&roomy(), &key(subject)));
    (slot, cluster.master_of_slot(slot))
}

#[tokio::test]
async fn wrongtype_fails_its_own_decision_and_no_other_of_the_batch() {
    let server = Server::start();
    let store = patient(&server.url()).await;
    let mut wire = server.wire();
    let name = |subject| store.key_name(&roomy(), &key(subject));
    wire.command([b"LPUSH".to_vec(), name(0), b"theirs".to_vec()]);
    wire.command([b"SET".to_vec(), name(1), b"theirs".to_vec()]);
    wire.command([b"HSET".to_vec(), name(2), b"field".to_vec(), b"theirs".to_vec()]);
    let policy = roomy();
    let asked = join_all((0..4).map(|subject| admitted(&store, &policy, subject, 25))).await;
    assert_eq!(asked, [0, 0, 0, 25]);
    assert_eq!(told(&store, "wrong_type"), 75);
    for subject in 0..2 {
        let trouble = store.inspect(&policy, &key(subject)).await.expect_err("it is not ours");
        assert!(matches!(trouble, Error::WrongType(_)), "{trouble}");
    }
    assert_eq!(wire.command([b"LLEN".to_vec(), name(0)]).integer(), 1);
    assert_eq!(wire.command([b"GET".to_vec(), name(1)]).bulk(), Some(b"theirs".as_slice()));
    assert_eq!(wire.command([b"HLEN".to_vec(), name(2)]).integer(), 1, "what others wrote is left alone");
}

#[tokio::test]
async fn a_state_of_a_later_release_is_left_alone() {
    let server = Server::start();
    let store = patient(&server.url()).await;
    let mut wire = server.wire();
    let (log, counter) = (roomy(), roomy().with_algorithm(Algorithm::SlidingCounter));
    let later = b"T\x02 whatever comes then".to_vec();
    wire.command([b"HSET".to_vec(), store.key_name(&log, &key(0)), b"h".to_vec(), later.clone()]);
    wire.command([b"SET".to_vec(), store.key_name(&counter, &key(1)), later.clone()]);
    for (policy, subject) in [(&log, 0), (&counter, 0), (&log, 1), (&counter, 1)] {
        assert_eq!(admitted(&store, policy, subject, 10).await, 0);
        let trouble = store.inspect(policy, &key(subject)).await.expect_err("it is of a later release");
        assert!(matches!(trouble, Error::NewerVersion(_)), "{trouble}");
        store.reset(policy, &key(subject)).await.expect_err("not even to be forgotten");
    }
    assert_eq!(told(&store, "newer_version"), 40);
    assert_eq!(admitted(&store, &log, 2, 10).await, 10);
    let held = wire.command([b"GET".to_vec(), store.key_name(&counter, &key(1))]);
    assert_eq!(held.bulk(), Some(later.as_slice()));
}

#[tokio::test]
async fn out_of_memory_charges_nothing_and_ends_with_the_shortage() {
    let server = Server::start();
    let store = patient(&server.url()).await;
    let (policy, mut wire) = (roomy(), server.wire());
    assert_eq!(admitted(&store, &policy, 0, 10).await, 10);
    wire.command(["CONFIG", "SET", "maxmemory", "1"]).expect_ok();
    assert_eq!(admitted(&store, &policy, 0, 10).await, 0);
    assert_eq!(told(&store, "out_of_memory"), 10);
    let charged = store.inspect(&policy, &key(0)).await.expect("it can still read").expect("charges");
    let refund = store.refund(&policy, &key(0), cost(1), charged.newest_charge).await;
    assert_eq!(refund.expect_err("nothing can be written"), Error::OutOfMemory);
    wire.command(["CONFIG", "SET", "maxmemory", "0"]).expect_ok();
    assert_eq!(admitted(&store, &policy, 0, 10).await, 10);
    assert_eq!(used(&store, &policy, 0).await, 20);
    assert_eq!(store.stats().connections, 1, "the connection was not to blame");
}

#[tokio::test]
async fn a_full_server_does_not_forget_a_state_that_changes_its_shape() {
    let server = Server::start();
    let store = patient(&server.url()).await;
    let (log, counter) = (roomy(), roomy().with_algorithm(Algorithm::SlidingCounter));
    assert_eq!(admitted(&store, &counter, 0, 10).await, 10);
    server.wire().command(["CONFIG", "SET", "maxmemory", "1"]).expect_ok();
    let meanwhile = admitted(&store, &log, 0, 1).await;
    server.wire().command(["CONFIG", "SET", "maxmemory", "0"]).expect_ok();
    assert_eq!(used(&store, &log, 0).await, 10 + meanwhile as u64);
}

#[tokio::test]
async fn readonly_is_not_charged_and_the_master_is_found_when_there_is_one_again() {
    let server = Server::start();
    let store = patient(&server.url()).await;
    let (policy, mut wire) = (roomy(), server.wire());
    assert_eq!(admitted(&store, &policy, 0, 10).await, 10);
    // A replica of nobody keeps what it has.
    wire.command(["REPLICAOF", "127.0.0.1", "1"]).expect_ok();
    assert_eq!(admitted(&store, &policy, 0, 10).await, 0);
    let stats = store.stats();
    assert!(stats.sent_again >= 10, "what a replica refused is asked of the master, if there is one: {stats:?}");
    assert_eq!(stats.troubles.values().sum::<u64>(), 10);
    assert_eq!(told(&store, "unreachable"), 10, "there is none: {stats:?}");
    wire.command(["REPLICAOF", "NO", "ONE"]).expect_ok();
    store.ready().await;
    assert_eq!(admitted(&store, &policy, 0, 10).await, 10);
    assert_eq!(used(&store, &policy, 0).await, 20);
}

/// A replica that takes over another's data set answers nothing until it has read it, and then reads only.
#[tokio::test(flavor = "multi_thread")]
async fn loading_is_told_by_name_and_then_waited_for_without_asking() {
    let master = Server::builder().arg("repl-diskless-sync-delay", "0").start();
    let mut wire = master.wire();
    for number in 0..1000 {
        wire.command(["SET", &format!("ballast {number}"), &"x".repeat(100)]).expect_ok();
    }
    let server = Server::builder().arg("loading-process-events-interval-bytes", "1024").start();
    let store = patient(&server.url()).await;
    let policy = roomy();
    let mut wire = server.wire();
    // A millisecond for each key that is read.
    wire.command(["CONFIG", "SET", "key-load-delay", "1000"]).expect_ok();
    wire.command(["REPLICAOF", "127.0.0.1", &master.port().to_string()]).expect_ok();
    wait_until("the replica to load", || wire.command(["EXISTS", "nothing"]).is_error());
    assert_eq!(store.inspect(&policy, &key(0)).await.expect_err("it is loading"), Error::Loading);
    let mut asked = 0;
    while store.stats().breaker_opened == 0 {
        assert_eq!(admitted(&store, &policy, 0, 1).await, 0);
        asked += 1;
    }
    assert_eq!(told(&store, "loading"), asked, "{:?}", store.stats());
    wire.command(["CONFIG", "SET", "key-load-delay", "0"]);
    wait_until("the replica to have loaded", || !wire.command(["EXISTS", "nothing"]).is_error());
    wire.command(["REPLICAOF", "NO", "ONE"]).expect_ok();
    store.ready().await;
    assert_eq!(admitted(&store, &policy, 0, 10).await, 10);
    assert_eq!(used(&store, &policy, 0).await, 10);
}

#[tokio::test]
async fn ask_and_moved_are_followed_and_charge_once() {
    let cluster = Cluster::start(2, 0);
    let store = patient(&cluster.url()).await;
    let (policy, (slot, from)) = (roomy(), master_of(&cluster, &store, 0));
    let moving = cluster.begin_move(slot, 1 - from);
    assert_eq!(admitted(&store, &policy, 0, 10).await, 10, "the key is made where the slot goes");
    let redirected = store.stats().redirected;
    assert!(redirected >= 10, "ASK is for one request only: {:?}", store.stats());
    moving.finish();
    assert_eq!(admitted(&store, &policy, 0, 10).await, 10);
    assert!(store.stats().redirected > redirected, "{:?}", store.stats());
    let redirected = store.stats().redirected;
    assert_eq!(admitted(&store, &policy, 0, 10).await, 10);
    assert_eq!(store.stats().redirected, redirected, "MOVED is for good");
    assert_eq!(used(&store, &policy, 0).await, 30);
}

#[tokio::test]
async fn tryagain_is_told_by_name_and_does_not_open_the_breaker_for_others() {
    let cluster = Cluster::start(2, 0);
    let store = impatient(&cluster.url()).await;
    let (one, two, subject) = (roomy(), Policy::new("two", roomy().limits().to_vec()).expect("a policy"), key(0));
    let (slot, from) = master_of(&cluster, &store, 0);
    let other = (1..1000).find(|other| master_of(&cluster, &store, *other).1 == from).expect("another subject there");
    let both = [&one, &two].map(|policy| Spend { policy, key: &subject, cost: cost(1) });
    let patient = patient(&cluster.url()).await;
    assert_eq!(admitted(&patient, &one, 0, 1).await, 1);
    // Of the subject's two keys one is here, and the other would have to be made there.
    let moving = cluster.begin_move(slot, 1 - from);
    for _ in 0..ASKED {
        let decisions = store.check_all(&both).await.expect("two spends");
        assert!(decisions.overall.is_degraded());
    }
    let stats = store.stats();
    assert!(told(&store, "moving") > 0, "{stats:?}");
    assert_eq!((stats.breaker_opened, stats.connections), (0, 2), "{stats:?}");
    assert_eq!(admitted(&patient, &one, other, 10).await, 10, "others of the same master are decided");
    moving.finish();
    let decisions = patient.check_all(&both).await.expect("two spends");
    assert!(decisions.overall.is_allowed() && !decisions.overall.is_degraded());
    assert_eq!((used(&patient, &one, 0).await, used(&patient, &two, 0).await), (2, 1), "none was charged meanwhile");
}

#[tokio::test]
async fn clusterdown_is_told_by_name_and_ends_when_the_slot_is_served() {
    let cluster = Cluster::start(1, 0);
    let (store, patient) = (impatient(&cluster.url()).await, patient(&cluster.url()).await);
    let policy = roomy();
    assert_eq!(admitted(&patient, &policy, 0, 10).await, 10);
    let (slot, _) = master_of(&cluster, &store, 1);
    let mut wire = cluster.nodes()[0].wire();
    wire.command(["CLUSTER", "DELSLOTS", &slot.to_string()]).expect_ok();
    wait_until("the cluster to be down", || {
        wire.command(["CLUSTER", "INFO"]).as_str_lossy().contains("cluster_state:fail")
    });
    for _ in 0..ASKED {
        assert_eq!(admitted(&store, &policy, 0, 1).await, 0);
    }
    let stats = store.stats();
    assert!(told(&store, "cluster_down") > 0, "{stats:?}");
    assert_eq!((stats.breaker_opened, stats.connections), (0, 1), "{stats:?}");
    // A patient caller sees the end of it.
    let asked = admitted(&patient, &policy, 0, 10);
    let served = async {
        wire.command(["CLUSTER", "ADDSLOTS", &slot.to_string()]).expect_ok();
        cluster.settle();
    };
    assert_eq!(futures_util::future::join(asked, served).await.0, 10);
    assert_eq!(used(&patient, &policy, 0).await, 20);
}

/// Requests time out while a connection is made that takes its time; once it is there, it is used.
#[tokio::test]
async fn requests_that_gave_up_before_a_connection_was_made_do_not_end_it() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url())
        .timeout(Duration::from_millis(50))
        .connect_timeout(Duration::from_secs(10))
        .probe_interval(Duration::from_secs(5))
        .connect()
        .expect("a store");
    store.ready().await;
    let mut wire = server.wire();
    wire.command(["MULTI"]).expect_ok();
    wire.command(["CLIENT", "KILL", "TYPE", "normal"]);
    wire.command(["CLIENT", "PAUSE", "300", "ALL"]);
    assert_eq!(wire.command(["EXEC"]).array()[0].integer(), 1);
    let policy = roomy();
    while store.stats().breaker_opened == 0 {
        assert_eq!(admitted(&store, &policy, 0, 10).await, 0);
    }
    store.ready().await;
    while admitted(&store, &policy, 0, 1).await == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let stats = store.stats();
    assert_eq!((stats.connections, stats.breaker_opened), (2, 1), "{stats:?}");
}
