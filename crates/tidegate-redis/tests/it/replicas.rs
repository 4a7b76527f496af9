//! Waiting for replicas; a decision stands without their confirmation.

use std::time::Duration;

use tidegate::{Algorithm, Cost, Key, Policy, Reason, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::{Server, Wire};

/// A server and its connected replica.
struct Pair {
    master: Server,
    replica: Server,
}

impl Pair {
    fn start() -> Self {
        let node = || Server::builder().arg("repl-diskless-sync-delay", "0");
        let master = node().start();
        let replica = node().arg("replicaof", &format!("127.0.0.1 {}", master.port())).start();
        let mut wire = master.wire();
        wire.command(["SET", "sign", "1"]).expect_ok();
        assert_eq!(wire.command(["WAIT", "1", "10000"]).integer(), 1, "the replica follows");
        Self { master, replica }
    }

    async fn store(&self, replicas: u32, at_most: Duration) -> RedisStore {
        let builder = RedisStore::builder(&self.master.url()).timeout(Duration::from_secs(3));
        let store = builder.wait_for_replicas(replicas, at_most).connect().expect("a store");
        store.ready().await;
        store
    }
}

/// How often a command was called.
fn calls(wire: &mut Wire, command: &str) -> u64 {
    let info = wire.command(["INFO", "commandstats"]).as_str_lossy().into_owned();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")).map(str::to_owned));
    line.map_or(0, |line| line.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number"))
}

fn policies() -> [Policy; 2] {
    [Algorithm::SlidingLog, Algorithm::SlidingCounter].map(|algorithm| {
        let policy = Policy::new("api", ["3/1h".parse().expect("a limit")]).expect("a policy");
        policy.with_algorithm(algorithm)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_that_a_replica_has_is_confirmed() {
    let pair = Pair::start();
    let store = pair.store(1, Duration::from_secs(1)).await;
    for (number, policy) in (1..).zip(policies()) {
        let name = format!("key {number}");
        let key = Key::new(&name).expect("a key");
        for used in 1..=3 {
            let decision = store.check(&policy, &key, Cost::ONE).await.expect("a decision");
            assert_eq!((decision.reason(), decision.used(), decision.is_degraded()), (Reason::Allowed, used, false));
            // It was waited for, so it is there now.
            let there = pair.replica.wire().command([&b"EXISTS"[..], &store.key_name(&policy, &key)]).integer();
            assert_eq!(there, 1);
        }
        assert_eq!(store.check(&policy, &key, Cost::ONE).await.expect("a decision").reason(), Reason::Limited);
    }
    assert_eq!(store.stats().unreplicated, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_that_no_replica_confirms_stands_and_is_counted() {
    let pair = Pair::start();
    let store = pair.store(1, Duration::from_millis(20)).await;
    pair.replica.pause();
    let [policy, _] = policies();
    let key = Key::new("alone").expect("a key");
    for used in 1..=3 {
        let decision = store.check(&policy, &key, Cost::ONE).await.expect("a decision");
        assert_eq!((decision.reason(), decision.used(), decision.is_degraded()), (Reason::Allowed, used, false));
        assert_eq!(store.stats().unreplicated, used);
    }
    // Nothing was charged, so there was nothing to confirm.
    assert_eq!(store.check(&policy, &key, Cost::ONE).await.expect("a decision").reason(), Reason::Limited);
    assert_eq!(store.stats().unreplicated, 3);
    pair.replica.resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_write_nothing_and_stores_without_replicas_do_not_wait() {
    let pair = Pair::start();
    let mut wire = pair.master.wire();
    let [policy, _] = policies();
    let key = Key::new("reader").expect("a key");
    let before = calls(&mut wire, "wait");
    let store = pair.store(1, Duration::from_millis(20)).await;
    let _ = store.peek(&policy, &key, Cost::ONE).await.expect("a decision");
    let _ = store.inspect(&policy, &key).await.expect("redis answers");
    assert_eq!(calls(&mut wire, "wait"), before);
    let silent = RedisStore::connect(&pair.master.url()).expect("a store");
    silent.ready().await;
    let _ = silent.charge(&policy, &key, Cost::ONE).await.expect("a decision");
    assert_eq!(calls(&mut wire, "wait"), before);
    let _ = store.charge(&policy, &key, Cost::ONE).await.expect("a decision");
    assert_eq!(calls(&mut wire, "wait"), before + 1);
}
