//! The clock goes far back soon after a change of limits: Redis and the in-memory store have the same state.

use std::time::Duration;

use tidegate::{Cost, Key, MemoryStore, Op, Override, Policy, Store as _, Timestamp};
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

const HOUR: u64 = 3_600_000_000;
const START: u64 = 1_700_000_000_000_000;

fn policy(limits: &[&str]) -> Policy {
    Policy::new("back", limits.iter().map(|limit| limit.parse().expect("a limit"))).expect("a policy")
}

fn at(hours: u64, micros: u64) -> Timestamp {
    Timestamp::from_micros(START + hours * HOUR + micros)
}

struct Pair {
    memory: MemoryStore,
    redis: RedisStore,
    key: Key<'static>,
}

impl Pair {
    async fn decide(&self, op: Op, policy: &Policy, now: Timestamp) {
        let shared = self.redis.at(now).decide(op, policy, &self.key, Cost::ONE).await.expect("redis answers");
        let own = self.memory.decide(op, policy, &self.key, Cost::ONE, now);
        assert_eq!(shared, own, "{op:?} at {now:?}: redis left, memory right");
    }

    async fn refund(&self, policy: &Policy, charged_at: Timestamp, now: Timestamp) {
        let shared = self.redis.at(now).refund(policy, &self.key, Cost::ONE, charged_at).await.expect("redis answers");
        let own = self.memory.refund(policy, &self.key, Cost::ONE, charged_at, now);
        assert_eq!(shared, own, "refund at {now:?}: redis left, memory right");
    }

    /// Compares the inspections of both stores. Returns the units in use of the first limit.
    async fn used(&self, policy: &Policy, now: Timestamp) -> u64 {
        let shared = self.redis.at(now).inspect(policy, &self.key).await.expect("redis answers");
        let own = self.memory.inspect(policy, &self.key, now);
        assert_eq!(shared, own, "inspected at {now:?}: redis left, memory right");
        own.map_or(0, |shown| shown.limits[0].used)
    }
}

async fn pairs(server: &Server) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for entries in [2, 3, 128] {
        let builder = RedisStore::builder(&server.url()).timeout(Duration::from_secs(60));
        let redis = builder.page(entries).connect().expect("a store");
        redis.ready().await;
        let key = Key::new(&format!("pages of {entries}")).expect("a key").into_owned();
        pairs.push(Pair { memory: MemoryStore::default(), redis, key });
    }
    pairs
}

/// Entries that only the longer window counts keep their ages.
#[tokio::test]
async fn a_log_keeps_the_ages_of_entries_that_only_a_longer_window_counts() {
    let server = Server::start();
    for own in [&["2/1d"][..], &["2/1d", "6/1m"]] {
        let (own, other) = (policy(own), policy(&["1000/1h"]));
        for pair in pairs(&server).await {
            for i in 0..20 {
                pair.decide(Op::Charge, &own, at(100, i)).await;
            }
            pair.decide(Op::Check, &other, at(116, 0)).await;
            // Nothing is charged, but the step back is stored.
            pair.refund(&other, at(50, 0), at(70, 0)).await;
            assert_eq!(pair.used(&own, at(70, 1)).await, 21);
            assert_eq!(pair.used(&other, at(70, 1)).await, 1);
            pair.decide(Op::Check, &own, at(70, 2)).await;
            pair.decide(Op::Charge, &other, at(70, 3)).await;
            assert_eq!(pair.used(&other, at(70, 4)).await, 2);
            pair.used(&own, at(70, 4)).await;
            pair.redis.at(at(70, 5)).reset(&own, &pair.key).await.expect("redis answers");
        }
    }
}

#[tokio::test]
async fn a_log_keeps_the_ages_of_its_entries_under_an_override_of_a_shorter_window() {
    let server = Server::start();
    let (own, other) = (policy(&["2/1d", "6/1m"]), policy(&["1000/1h"]));
    for pair in pairs(&server).await {
        for i in 0..20 {
            pair.decide(Op::Charge, &own, at(100, i)).await;
        }
        let by = Override::limits(other.clone());
        pair.memory.set_override(&own, &pair.key, by.clone(), at(100, 20)).expect("there is room");
        pair.redis.at(at(100, 20)).set_override(&own, &pair.key, by).await.expect("there is room");
        pair.decide(Op::Check, &own, at(116, 0)).await;
        pair.refund(&own, at(50, 0), at(70, 0)).await;
        assert_eq!(pair.used(&own, at(70, 1)).await, 1);
        pair.memory.remove_override(&own, &pair.key, at(70, 2));
        pair.redis.at(at(70, 2)).remove_override(&own, &pair.key).await.expect("redis answers");
        assert_eq!(pair.used(&own, at(70, 3)).await, 21);
        pair.decide(Op::Check, &own, at(70, 4)).await;
    }
}
