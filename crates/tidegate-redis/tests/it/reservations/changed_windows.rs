//! Many open holds on a key whose policy has changed its windows or its algorithm: every denial must find out what their ends
//! give back, and anybody can cause denials.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate::{Algorithm, Buckets, Key, Policy, Reason, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::{Server, Wire};

use super::{at, cost, key, policy, reserve, store_of};

const SECOND: u64 = 1_000_000;
const HOLDS: u64 = 1000;

/// Microseconds that Redis has spent in the script.
fn script_time(wire: &mut Wire) -> u64 {
    let reply = wire.command(["INFO", "commandstats"]);
    let text = reply.as_str_lossy().into_owned();
    let line = text.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("the script was called");
    let usec = line.split(',').find_map(|field| field.strip_prefix("usec=")).expect("its time");
    usec.parse().expect("a number")
}

fn algorithms() -> [Algorithm; 5] {
    let buckets = Algorithm::SlidingBuckets(Buckets::new(1000).expect("in range"));
    [Algorithm::SlidingLog, Algorithm::SlidingCounter, buckets, Algorithm::FixedWindow, Algorithm::Gcra(None)]
}

/// A key with many entries and many open holds, the ends of which are a second apart.
async fn fill(store: &RedisStore, policy: &Policy, key: &Key<'_>, entries: u64) {
    let charges = entries / HOLDS;
    for first in (0..HOLDS).step_by(20) {
        join_all((first..first + 20).map(async |hold| {
            let granted = hold * 10_000;
            let ttl = Duration::from_secs(100 + (hold * 7) % HOLDS);
            assert!(reserve(&at(store, granted), policy, key, 3, ttl).await.decision.is_allowed());
            join_all((1..charges).map(async |entry| {
                let later = at(store, granted + entry * 10_000 / charges);
                assert!(later.charge(policy, key, cost(1)).await.expect("redis answers").is_allowed());
            }))
            .await;
        }))
        .await;
    }
}

/// The microseconds in the script for a denial, the wait of which ends after many holds have ended.
async fn denial(store: &RedisStore, wire: &mut Wire, policy: &Policy, key: &Key<'_>) -> u64 {
    let before = script_time(wire);
    let denied = at(store, 20 * SECOND).peek(policy, key, cost(2 * HOLDS)).await.expect("redis answers");
    assert_eq!(denied.reason(), Reason::Limited, "{policy:?}");
    assert!(denied.retry_after().expect("it fits later") > Duration::from_secs(300), "{denied:?}");
    script_time(wire) - before
}

/// For each algorithm of a state, before and after its first charge under a changed window: the time of a denial under the
/// policy of the state, and the longest under other policies with the same name.
async fn denials(entries: u64, algorithms: &[Algorithm]) -> Vec<(String, u64, u64)> {
    let server = Server::start();
    let store = store_of(&server).await;
    let mut wire = server.wire();
    let mut found = Vec::new();
    for own in algorithms {
        // The number of entries is of interest only for logs.
        let entries = if *own == Algorithm::SlidingLog { entries } else { 2 * HOLDS };
        let max = entries + 2 * HOLDS + 1000;
        let policy =
            |window: &str, algorithm| policy("changed", &[&format!("{max}/{window}")]).with_algorithm(algorithm);
        let (before, key) = (policy("1h", *own), key(&format!("{own:?}")));
        fill(&store, &before, &key, entries).await;
        let own_time = denial(&store, &mut wire, &before, &key).await;
        for migrates in [false, true] {
            if migrates {
                let charged = at(&store, 11 * SECOND).charge(&policy("50m", *own), &key, cost(1)).await;
                assert!(charged.expect("redis answers").is_allowed());
            }
            let mut slowest = 0;
            for algorithm in self::algorithms() {
                let time = denial(&store, &mut wire, &policy("2h", algorithm), &key).await;
                println!(
                    "{own:?}, then {algorithm:?}, migrates {migrates}: {time} us, before the change {own_time} us"
                );
                slowest = slowest.max(time);
            }
            found.push((format!("{own:?}, migrates {migrates}"), own_time, slowest));
        }
    }
    found
}

#[tokio::test]
async fn a_changed_window_makes_a_denial_on_a_key_with_many_open_holds_not_much_slower() {
    for (state, own, slowest) in denials(10_000, &[Algorithm::SlidingLog]).await {
        assert!(slowest < 100 * own, "{state}: {own} us, after the change {slowest} us");
    }
}

#[tokio::test]
#[ignore = "measures time"]
async fn figures_of_denials_after_a_changed_window() {
    for (state, own, slowest) in denials(100_000, &algorithms()).await {
        println!("{state}: {own} us, after the change at most {slowest} us");
    }
}
