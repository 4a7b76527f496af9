//! Each error of Redis, caused on real servers and handled by its name.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate::{Algorithm, Policy, Spend, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::{Cluster, Server};

use crate::{
    subjects::{cost, key, roomy},
    waiting::wait_until,
};

/// A store with a long timeout, so that a slow machine is never the reason for a failure.
async fn store_with_long_timeout(url: &str) -> RedisStore {
    let store = RedisStore::builder(url).timeout(Duration::from_secs(20)).connect().expect("a store");
    store.ready().await;
    store
}

/// Number of requests to a store with a short timeout; if most of them timed out, its breaker would open.
const ASKED: u32 = 50;

/// A store with a timeout that is short enough for a test. On a slow machine it may also time out without a fault.
async fn store_with_short_timeout(url: &str) -> RedisStore {
    let store = RedisStore::builder(url).timeout(Duration::from_millis(40)).breaker_after(ASKED * 2 / 5);
    let store = store.connect().expect("a store");
    store.ready().await;
    store
}

/// Decides this many requests of cost 1 at the same time. Returns how many of them Redis admitted.
async fn admitted(store: &RedisStore, policy: &Policy, subject: usize, requests: usize) -> usize {
    let key = key(subject);
    let decisions =
        join_all((0..requests).map(async |_| store.check(policy, &key, cost(1)).await.expect("a decision"))).await;
    decisions.iter().filter(|decision| decision.is_allowed() && !decision.is_degraded()).count()
}

async fn used(store: &RedisStore, policy: &Policy, subject: usize) -> u64 {
    let shown = store.inspect(policy, &key(subject)).await.expect("redis answers");
    shown.map_or(0, |shown| shown.limits[0].used)
}

/// How often an error was the reason to decide without Redis.
fn outcome_of(store: &RedisStore, error: &str) -> u64 {
    store.stats().errors.get(error).copied().unwrap_or(0)
}

/// The master that has a subject's keys.
fn master_of(cluster: &Cluster, store: &RedisStore, subject: usize) -> (u16, usize) {
    let slot = cluster.key_slot(store.key_name(&roomy(), &key(subject)));
    (slot, cluster.master_of_slot(slot))
}

#[tokio::test]
async fn wrongtype_fails_its_own_decision_and_no_other_of_the_batch() {
    let server = Server::start();
    let store = store_with_long_timeout(&server.url()).await;
    let mut wire = server.wire();
    let name = |subject| store.key_name(&roomy(), &key(subject));
    wire.command([b"LPUSH".to_vec(), name(0), b"theirs".to_vec()]);
    wire.command([b"SET".to_vec(), name(1), b"theirs".to_vec()]);
    wire.command([b"HSET".to_vec(), name(2), b"field".to_vec(), b"theirs".to_vec()]);
    let policy = roomy();
    let kind = join_all((0..4).map(|subject| admitted(&store, &policy, subject, 25))).await;
    assert_eq!(kind, [0, 0, 0, 25]);
    assert_eq!(outcome_of(&store, "wrong_type"), 75);
    for subject in 0..2 {
        let error = store.inspect(&policy, &key(subject)).await.expect_err("it is not ours");
        assert!(error.cause() == "wrong_type", "{error}");
    }
    assert_eq!(wire.command([b"LLEN".to_vec(), name(0)]).integer(), 1);
    assert_eq!(wire.command([b"GET".to_vec(), name(1)]).bulk(), Some(b"theirs".as_slice()));
    assert_eq!(wire.command([b"HLEN".to_vec(), name(2)]).integer(), 1, "what others wrote is left alone");
}

#[tokio::test]
async fn a_state_of_a_later_release_is_not_changed() {
    let server = Server::start();
    let store = store_with_long_timeout(&server.url()).await;
    let mut wire = server.wire();
    let (log, counter) = (roomy(), roomy().with_algorithm(Algorithm::SlidingCounter));
    let later = b"T\x02 whatever comes then".to_vec();
    wire.command([b"HSET".to_vec(), store.key_name(&log, &key(0)), b"h".to_vec(), later.clone()]);
    wire.command([b"SET".to_vec(), store.key_name(&counter, &key(1)), later.clone()]);
    for (policy, subject) in [(&log, 0), (&counter, 0), (&log, 1), (&counter, 1)] {
        assert_eq!(admitted(&store, policy, subject, 10).await, 0);
        let error = store.inspect(policy, &key(subject)).await.expect_err("it is of a later release");
        assert!(error.cause() == "newer_version", "{error}");
        store.reset(policy, &key(subject)).await.expect_err("not even to be forgotten");
    }
    assert_eq!(outcome_of(&store, "newer_version"), 40);
    assert_eq!(admitted(&store, &log, 2, 10).await, 10);
    let held = wire.command([b"GET".to_vec(), store.key_name(&counter, &key(1))]);
    assert_eq!(held.bulk(), Some(later.as_slice()));
}

#[tokio::test]
async fn out_of_memory_charges_nothing_and_ends_when_memory_is_free() {
    let server = Server::start();
    let store = store_with_long_timeout(&server.url()).await;
    let (policy, mut wire) = (roomy(), server.wire());
    assert_eq!(admitted(&store, &policy, 0, 10).await, 10);
    wire.command(["CONFIG", "SET", "maxmemory", "1"]).expect_ok();
    assert_eq!(admitted(&store, &policy, 0, 10).await, 0);
    assert_eq!(outcome_of(&store, "out_of_memory"), 10);
    let charged = store.inspect(&policy, &key(0)).await.expect("it can still read").expect("charges");
    let refund = store.refund(&policy, &key(0), cost(1), charged.newest_charge).await;
    assert_eq!(refund.expect_err("nothing can be written").cause(), "out_of_memory");
    wire.command(["CONFIG", "SET", "maxmemory", "0"]).expect_ok();
    assert_eq!(admitted(&store, &policy, 0, 10).await, 10);
    assert_eq!(used(&store, &policy, 0).await, 20);
    assert_eq!(store.stats().connections, 1, "the connection was not to blame");
}

#[tokio::test]
async fn a_full_server_does_not_lose_a_state_that_changes_its_layout() {
    let server = Server::start();
    let store = store_with_long_timeout(&server.url()).await;
    let (log, counter) = (roomy(), roomy().with_algorithm(Algorithm::SlidingCounter));
    assert_eq!(admitted(&store, &counter, 0, 10).await, 10);
    server.wire().command(["CONFIG", "SET", "maxmemory", "1"]).expect_ok();
    let meanwhile = admitted(&store, &log, 0, 1).await;
    server.wire().command(["CONFIG", "SET", "maxmemory", "0"]).expect_ok();
    assert_eq!(used(&store, &log, 0).await, 10 + meanwhile as u64);
}

#[tokio::test]
async fn a_read_only_server_charges_nothing_and_the_next_master_is_found() {
    let server = Server::start();
    let store = store_with_long_timeout(&server.url()).await;
    let (policy, mut wire) = (roomy(), server.wire());
    assert_eq!(admitted(&store, &policy, 0, 10).await, 10);
    // REPLICAOF NO ONE keeps the data.
    wire.command(["REPLICAOF", "127.0.0.1", "1"]).expect_ok();
    assert_eq!(admitted(&store, &policy, 0, 10).await, 0);
    let stats = store.stats();
    assert!(stats.sent_again >= 10, "requests that a replica refused are sent to the master: {stats:?}");
    assert_eq!(stats.errors.values().sum::<u64>(), 10);
    assert_eq!(outcome_of(&store, "unreachable"), 10, "there is none: {stats:?}");
    wire.command(["REPLICAOF", "NO", "ONE"]).expect_ok();
    store.ready().await;
    assert_eq!(admitted(&store, &policy, 0, 10).await, 10);
    assert_eq!(used(&store, &policy, 0).await, 20);
}

/// A replica that loads the data set of another server answers LOADING, and then is read-only.
#[tokio::test(flavor = "multi_thread")]
async fn loading_is_reported_by_name_and_opens_the_breaker_until_it_ends() {
    let master = Server::builder().arg("repl-diskless-sync-delay", "0").start();
    let mut wire = master.wire();
    for number in 0..1000 {
        wire.command(["SET", &format!("ballast {number}"), &"x".repeat(100)]).expect_ok();
    }
    let server = Server::builder().arg("loading-process-events-interval-bytes", "1024").start();
    let store = store_with_long_timeout(&server.url()).await;
    let policy = roomy();
    let mut wire = server.wire();
    // A millisecond for each key that is read.
    wire.command(["CONFIG", "SET", "key-load-delay", "1000"]).expect_ok();
    wire.command(["REPLICAOF", "127.0.0.1", &master.port().to_string()]).expect_ok();
    wait_until("the replica to load", || wire.command(["EXISTS", "nothing"]).is_error());
    assert_eq!(store.inspect(&policy, &key(0)).await.expect_err("it is loading").cause(), "loading");
    let mut kind = 0;
    while store.stats().breaker_opened == 0 {
        assert_eq!(admitted(&store, &policy, 0, 1).await, 0);
        kind += 1;
    }
    assert_eq!(outcome_of(&store, "loading"), kind, "{:?}", store.stats());
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
    let store = store_with_long_timeout(&cluster.url()).await;
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
async fn tryagain_is_reported_by_name_and_does_not_open_the_breaker() {
    let cluster = Cluster::start(2, 0);
    let store = store_with_short_timeout(&cluster.url()).await;
    let (one, two, subject) = (roomy(), Policy::new("two", roomy().limits().to_vec()).expect("a policy"), key(0));
    let (slot, from) = master_of(&cluster, &store, 0);
    let other = (1..1000).find(|other| master_of(&cluster, &store, *other).1 == from).expect("another subject there");
    let both = [&one, &two].map(|policy| Spend { policy, key: &subject, cost: cost(1) });
    let store_with_long_timeout = store_with_long_timeout(&cluster.url()).await;
    assert_eq!(admitted(&store_with_long_timeout, &one, 0, 1).await, 1);
    // One of the subject's two keys is at this node, and the other would have to be created at the other node.
    let moving = cluster.begin_move(slot, 1 - from);
    for _ in 0..ASKED {
        let decisions = store.check_all(&both).await.expect("two spends");
        assert!(decisions.overall.is_degraded());
    }
    let stats = store.stats();
    assert!(outcome_of(&store, "moving") > 0, "{stats:?}");
    assert_eq!((stats.breaker_opened, stats.connections), (0, 2), "{stats:?}");
    assert_eq!(admitted(&store_with_long_timeout, &one, other, 10).await, 10, "others of the same master are decided");
    moving.finish();
    let decisions = store_with_long_timeout.check_all(&both).await.expect("two spends");
    assert!(decisions.overall.is_allowed() && !decisions.overall.is_degraded());
    assert_eq!(
        (used(&store_with_long_timeout, &one, 0).await, used(&store_with_long_timeout, &two, 0).await),
        (2, 1),
        "none was charged meanwhile"
    );
}

#[tokio::test]
async fn clusterdown_is_reported_by_name_and_ends_when_the_slot_is_served() {
    let cluster = Cluster::start(1, 0);
    let (store, store_with_long_timeout) =
        (store_with_short_timeout(&cluster.url()).await, store_with_long_timeout(&cluster.url()).await);
    let policy = roomy();
    assert_eq!(admitted(&store_with_long_timeout, &policy, 0, 10).await, 10);
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
    assert!(outcome_of(&store, "cluster_down") > 0, "{stats:?}");
    assert_eq!((stats.breaker_opened, stats.connections), (0, 1), "{stats:?}");
    // A caller with a long timeout sees the end of it.
    let kind = admitted(&store_with_long_timeout, &policy, 0, 10);
    let served = async {
        wire.command(["CLUSTER", "ADDSLOTS", &slot.to_string()]).expect_ok();
        cluster.settle();
    };
    assert_eq!(futures_util::future::join(kind, served).await.0, 10);
    assert_eq!(used(&store_with_long_timeout, &policy, 0).await, 20);
}

/// Requests time out while a slow connection is opened; the connection is used once it is open.
#[tokio::test]
async fn requests_that_timed_out_while_connecting_do_not_end_the_connection() {
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
