//! Logs that live long and grow large say what the in-memory store says.

use futures_util::future::join_all;
use tidegate::{Cost, Decision, Key, MemoryStore, Op, Policy, Timestamp};
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Asks both `steps` times, `costs` at most each, a little later every time.
async fn agree(store: &RedisStore, policy: &Policy, steps: usize, costs: u64, dearest: bool) {
    let memory = MemoryStore::default();
    let key = Key::new("long").expect("a key");
    let mut dice = Dice(20_261_115);
    let mut now = 1_700_000_000_000_000;
    let mut charged: Vec<(Timestamp, Cost)> = Vec::new();
    for round in 0..steps / 100 {
        let mut asked = Vec::new();
        for _ in 0..100 {
            now += dice.below(2_000);
            let op = if dice.below(8) == 0 {
                Op::Peek
            } else if dearest {
                Op::Charge
            } else {
                Op::Check
            };
            let cost = if dearest { costs - dice.below(2) } else { 1 + dice.below(costs) };
            asked.push((op, Cost::new(cost).expect("in range"), Timestamp::from_micros(now)));
        }
        let shared = join_all(asked.iter().map(|(op, cost, at)| store.decide_at(*op, policy, &key, *cost, *at))).await;
        for ((op, cost, at), shared) in asked.into_iter().zip(shared) {
            let own: Decision = memory.decide(op, policy, &key, cost, at);
            assert_eq!(shared.expect("redis answers"), own, "round {round}, {op:?} of {cost:?} at {at:?}");
            charged.extend(own.charged_at().map(|at| (at, cost)));
        }
        // Now and then something far back is given back.
        if round % 7 == 3 && !charged.is_empty() {
            let (at, cost) =
                charged[charged.len() - 1 - usize::try_from(dice.below(600)).expect("small") % charged.len()];
            let now = Timestamp::from_micros(now);
            let shared = store.refund_at(policy, &key, cost, at, now).await.expect("redis answers");
            assert_eq!(shared, memory.refund(policy, &key, cost, at, now), "round {round}");
        }
    }
    let shown = store.inspect_at(policy, &key, Timestamp::from_micros(now)).await.expect("redis answers");
    let own = memory.inspect(policy, &key, Timestamp::from_micros(now));
    let used = |shown: Option<tidegate::Inspection>| {
        shown.map(|shown| shown.limits.iter().map(|limit| (limit.used, limit.reset_after)).collect::<Vec<_>>())
    };
    assert_eq!(used(shown), used(own));
}

fn policy(limits: &[&str]) -> Policy {
    Policy::new("long", limits.iter().map(|limit| limit.parse().expect("a limit"))).expect("a policy")
}

async fn store(server: &Server) -> RedisStore {
    let store = RedisStore::connect(&server.url()).expect("a store");
    store.ready().await;
    store
}

#[tokio::test]
async fn thousands_of_entries_in_pages_as_in_use() {
    let server = Server::start();
    let store = store(&server).await;
    agree(&store, &policy(&["9000/10s"]), 30_000, 3, false).await;
}

#[tokio::test]
async fn several_limits_over_thousands_of_entries() {
    let server = Server::start();
    let store = store(&server).await;
    agree(&store, &policy(&["400/300ms", "9000/10s", "2000/2s"]), 20_000, 3, false).await;
}

#[tokio::test]
async fn many_small_pages_nodes_and_a_long_top() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).page(3).connect().expect("a store");
    store.ready().await;
    agree(&store, &policy(&["900/1s", "300/200ms"]), 10_000, 3, false).await;
}

/// More units pass through the log than a double can tell apart.
#[tokio::test]
async fn sums_beyond_two_to_the_fifty_third() {
    let server = Server::start();
    let store = store(&server).await;
    agree(&store, &policy(&["1000000000000/100ms"]), 12_000, 1_000_000_000_000, true).await;
    let two = RedisStore::builder(&server.url()).page(2).connect().expect("a store");
    two.ready().await;
    agree(&two, &policy(&["1000000000000/100ms", "1000000000000/10ms"]), 12_000, 1_000_000_000_000, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_would_change_its_form_while_its_slot_is_moved_waits_and_is_not_lost() {
    let cluster = tidegate_testbed::Cluster::start(2, 0);
    let store =
        RedisStore::builder(&cluster.url()).timeout(std::time::Duration::from_secs(1)).connect().expect("a store");
    store.ready().await;
    let before = Policy::new("p", ["1000/1h".parse().expect("a limit")]).expect("a policy");
    let after = before.clone().with_algorithm("sliding_buckets:6".parse().expect("an algorithm"));
    let before = before.with_algorithm("sliding_counter".parse().expect("an algorithm"));
    let key = Key::new("mover").expect("a key");
    assert_eq!(store.check(&before, &key, Cost::new(5).expect("a cost")).await.used(), 5);
    let slot = cluster.key_slot(store.key_name(&before, &key));
    let moving = cluster.begin_move(slot, 1 - cluster.master_of_slot(slot));
    let during = store.check(&after, &key, Cost::ONE).await;
    assert!(during.is_degraded() && store.stats().troubles.contains_key("moving"), "{during:?} {:?}", store.stats());
    assert_eq!(store.check(&before, &key, Cost::ONE).await.used(), 6, "what keeps its form goes on");
    assert_eq!(moving.move_keys(1), 1);
    moving.finish();
    assert_eq!(store.check(&after, &key, Cost::ONE).await.used(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_outgrows_its_string_while_its_slot_is_moved_loses_nothing() {
    let cluster = tidegate_testbed::Cluster::start(2, 0);
    let builder = RedisStore::builder(&cluster.url()).timeout(std::time::Duration::from_secs(5));
    let store = builder.connect().expect("a store");
    store.ready().await;
    let policy = Policy::new("log", ["1000/1h".parse().expect("a limit")]).expect("a policy");
    let key = Key::new("mover").expect("a key");
    let slot = cluster.key_slot(store.key_name(&policy, &key));
    let spend = async |from: u64, to: u64| {
        for used in from..=to {
            let decision = store.check(&policy, &key, Cost::ONE).await;
            assert_eq!((decision.used(), decision.is_degraded()), (used, false), "{:?}", store.stats());
        }
    };
    spend(1, 100).await;
    let moving = cluster.begin_move(slot, 1 - cluster.master_of_slot(slot));
    spend(101, 300).await;
    assert_eq!(moving.move_keys(1), 1);
    spend(301, 400).await;
    moving.finish();
    spend(401, 500).await;
}
