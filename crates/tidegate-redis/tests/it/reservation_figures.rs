//! Figures of reservations. They are not asserted: `cargo test --release -p tidegate-redis --test it -- --ignored
//! --nocapture figures`.
#![expect(clippy::disallowed_methods, reason = "it measures real time")]

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate::{Algorithm, Buckets, Cost, Hold, Key, Lease, Policy, Reason, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::{Server, Wire};

const ROUNDS: usize = 11;

fn policy(name: &str, algorithm: Algorithm) -> Policy {
    let policy = Policy::new(name, ["1000000/1m".parse().expect("a limit")]).expect("a policy");
    policy.with_algorithm(algorithm)
}

async fn reserve(store: &RedisStore, policy: &Policy, key: &Key<'_>, ttl: Duration) -> tidegate::ReservationId {
    let reserved = store.reserve(policy, key, Cost::ONE, Hold::new(ttl)).await.expect("redis answers");
    reserved.id.expect("it fits")
}

/// Microseconds that Redis has spent in the script.
fn script_time(wire: &mut Wire) -> f64 {
    let reply = wire.command(["INFO", "commandstats"]);
    let text = reply.as_str_lossy().into_owned();
    let line = text.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("the script was called");
    let usec = line.split(',').find_map(|field| field.strip_prefix("usec=")).expect("its time");
    usec.parse().expect("a number")
}

/// The time of `checks` checks, `at_once` of which are under way.
async fn checks(
    store: &RedisStore,
    policy: &Policy,
    key: &Key<'_>,
    checks: u32,
    at_once: u32,
    reason: Reason,
) -> Duration {
    // The denied cost is below the limit, so that the answer needs a retry time.
    let cost = if reason == Reason::Allowed { Cost::ONE } else { Cost::new(999_000).expect("in range") };
    let began = Instant::now();
    for _ in 0..checks / at_once {
        let decisions = join_all((0..at_once).map(|_| store.check(policy, key, cost))).await;
        assert!(decisions.into_iter().all(|decision| decision.expect("redis answers").reason() == reason));
    }
    began.elapsed()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

#[tokio::test]
#[ignore = "measures time"]
async fn figures_of_a_check_with_a_hundred_open_holds() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(60)).connect().expect("a store");
    store.ready().await;
    let mut wire = server.wire();
    let algorithms =
        [("log", Algorithm::SlidingLog), ("counter", Algorithm::SlidingCounter), ("gcra", Algorithm::Gcra(None))];
    for ((name, algorithm), (ends, ttl)) in
        algorithms.into_iter().flat_map(|algorithm| [("after", 3600), ("before", 50)].map(|ends| (algorithm, ends)))
    {
        let policy = policy(name, algorithm);
        for reason in [Reason::Allowed, Reason::Limited] {
            let key = |of: &str| Key::new(&format!("{of} {ends} {reason}")).expect("a key").into_owned();
            let (without, with) = (key("without"), key("with"));
            // Both keys have the same charges, so that only the holds make a difference.
            for _ in 0..100 {
                reserve(&store, &policy, &with, Duration::from_secs(ttl)).await;
                let _ = store.charge(&policy, &without, Cost::ONE).await.expect("redis answers");
            }
            for key in [&without, &with] {
                let _ = store.charge(&policy, key, Cost::new(900_000).expect("in range")).await.expect("redis answers");
            }
            for (at_once, total) in [(1, 500), (64, 6400)] {
                let (mut ratios, mut in_script, mut each) = (Vec::new(), Vec::new(), Vec::new());
                for _ in 0..ROUNDS {
                    let before = script_time(&mut wire);
                    let plain = checks(&store, &policy, &without, total, at_once, reason).await.as_secs_f64();
                    let between = script_time(&mut wire);
                    let held = checks(&store, &policy, &with, total, at_once, reason).await.as_secs_f64();
                    let after = script_time(&mut wire);
                    ratios.push(held / plain);
                    in_script.push((after - between) / (between - before));
                    each.push((after - between) / f64::from(total));
                }
                let (ratio, in_script, each) = (median(ratios), median(in_script), median(each));
                println!(
                    "{name}, {reason}, holds end {ends} the window, {at_once} at once: \
                     ratio {ratio:.3}; in the script {each:.1} us, ratio {in_script:.3}"
                );
            }
        }
    }
}

#[tokio::test]
#[ignore = "measures time"]
async fn figures_of_operations_on_reservations() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(60)).connect().expect("a store");
    store.ready().await;
    let policy = policy("log", Algorithm::SlidingLog);
    for open in [0, 100, 900] {
        let name = format!("key-{open}");
        let key = Key::new(&name).expect("a key");
        for _ in 0..open {
            reserve(&store, &policy, &key, Duration::from_secs(3600)).await;
        }
        let began = Instant::now();
        for _ in 0..1000 {
            let id = reserve(&store, &policy, &key, Duration::from_secs(600)).await;
            assert!(store.commit(&id, &[1], &policy).await.expect("redis answers").known);
        }
        println!("{open} open: reserve and commit {:.1} us", began.elapsed().as_secs_f64() * 1e3);
    }
    let buckets = Algorithm::SlidingBuckets(Buckets::new(1000).expect("in range"));
    for kind in [Algorithm::SlidingLog, Algorithm::SlidingCounter, buckets, Algorithm::Gcra(None)] {
        let policy = policy.clone().with_algorithm(kind);
        let name = format!("ends-{kind:?}");
        let key = Key::new(&name).expect("a key");
        let at = |micros: u64| store.at(tidegate::Timestamp::from_micros(1_700_000_000_000_000 + micros));
        for i in 0..1000 {
            reserve(&at(i), &policy, &key, Duration::from_secs(10) - Duration::from_micros(i)).await;
        }
        let narrow = Policy::new("log", ["1001/1m".parse().expect("a limit")]).expect("a policy").with_algorithm(kind);
        let began = Instant::now();
        let denied = at(2000).peek(&narrow, &key, Cost::new(600).expect("in range")).await.expect("redis answers");
        println!("{kind:?}: a denial under 1000 open holds {:?}, retry {:?}", began.elapsed(), denied.retry_after());
        let began = Instant::now();
        let after = at(10_000_000).check(&policy, &key, Cost::ONE).await.expect("redis answers");
        println!("{kind:?}: 1000 ends at once {:?}, used {}", began.elapsed(), after.used());
        let name = format!("leases-{kind:?}");
        let key = Key::new(&name).expect("a key");
        for i in 0..1000 {
            let lease = Lease::new(Cost::ONE, Duration::from_secs(10) - Duration::from_micros(i));
            let leased = at(i).lease(&policy, &key, &lease).await.expect("redis answers");
            assert_eq!(leased.granted, 1);
        }
        let began = Instant::now();
        let after = at(10_000_000).check(&policy, &key, Cost::ONE).await.expect("redis answers");
        println!("{kind:?}: 1000 leases end at once {:?}, used {}", began.elapsed(), after.used());
    }
}
