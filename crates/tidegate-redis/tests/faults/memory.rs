//! A server at its `maxmemory`, and servers that may evict keys.

use std::time::Duration;

use tidegate::AtCapacity;
use tidegate_redis::RedisStore;
use tidegate_testbed::{Server, Wire};

use crate::{
    account::{Account, Promise},
    load::Load,
};

/// Fills the server's memory until it refuses writes.
fn fill(wire: &mut Wire) {
    for size in [256 * 1024, 16 * 1024, 1024, 64] {
        let value = vec![b'x'; size];
        let push = |wire: &mut Wire| wire.command([b"RPUSH", b"filler".as_slice(), &value]);
        let refused = (0..100_000).find_map(|_| Some(push(wire)).filter(tidegate_testbed::Reply::is_error));
        assert!(refused.expect("memory has an end").error().starts_with("OOM"));
    }
}

#[test]
fn a_full_server_admits_nothing_more_and_keeps_its_charges() {
    let server = Server::builder().arg("maxmemory", "24mb").arg("maxmemory-policy", "noeviction").start();
    // On a busy machine a key may expire meanwhile. The account does not know overflow keys, so a new key is denied.
    let load = Load::start(RedisStore::builder(&server.url()).at_capacity(AtCapacity::Deny));
    load.wait_for_progress();
    let mut wire = server.wire();
    let full = || load.store.stats().errors.get("out_of_memory").copied().unwrap_or(0) >= 1_000;
    crate::waiting::wait_until("memory to be full", || {
        fill(&mut wire);
        full()
    });
    assert_eq!(wire.command(["DEL", "filler"]).integer(), 1);
    load.wait_for_progress();
    let account = Account::of(&load.stop(), &server.url(), Promise::KeepsAll, None);
    account.print("`maxmemory` reached", Promise::KeepsAll);
    assert!(!account.stats.may_evict);
}

#[tokio::test]
async fn a_server_that_may_evict_is_reported_at_the_start() {
    for (policy, may_evict) in [("noeviction", false), ("allkeys-lru", true), ("volatile-ttl", true)] {
        let server = Server::builder().arg("maxmemory", "50mb").arg("maxmemory-policy", policy).start();
        let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(5)).connect().expect("a store");
        store.ready().await;
        assert_eq!(store.stats().may_evict, may_evict, "{policy}");
    }
}
