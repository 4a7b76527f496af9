//! Large logs give the same answers as the in-memory store, also after an idle period of about a window.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate::{Cost, Decision, Key, MemoryStore, Op, Policy, Store as _, Timestamp};
use tidegate_conformance::convert;
use tidegate_conformance::model::{Micros, Model, ModelAlgorithm, ModelLimit, ModelPolicy, ModelRequest};
use tidegate_redis::{RedisStore, RedisStoreBuilder};
use tidegate_testbed::Server;

/// Pseudo-random numbers that are the same in every run.
struct PseudoRandom(u64);

impl PseudoRandom {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Requests `steps` decisions from both stores, with costs up to `costs`, each a little later than the one before.
async fn agree(store: &RedisStore, policy: &Policy, steps: usize, costs: u64, max_costs: bool) {
    let memory = MemoryStore::default();
    let key = Key::new("long").expect("a key");
    let mut random = PseudoRandom(20_261_115);
    let mut now = 1_700_000_000_000_000;
    let mut charged: Vec<(Timestamp, Cost)> = Vec::new();
    for round in 0..steps / 100 {
        let mut requests = Vec::new();
        for _ in 0..100 {
            now += random.below(2_000);
            let op = if random.below(8) == 0 {
                Op::Peek
            } else if max_costs {
                Op::Charge
            } else {
                Op::Check
            };
            let cost = if max_costs { costs - random.below(2) } else { 1 + random.below(costs) };
            requests.push((op, Cost::new(cost).expect("in range"), Timestamp::from_micros(now)));
        }
        let shared =
            join_all(requests.iter().map(async |(op, cost, at)| store.at(*at).decide(*op, policy, &key, *cost).await))
                .await;
        for ((op, cost, at), shared) in requests.into_iter().zip(shared) {
            let own: Decision = memory.decide(op, policy, &key, cost, at);
            assert_eq!(shared.expect("redis answers"), own, "round {round}, {op:?} of {cost:?} at {at:?}");
            charged.extend(own.charged_at().map(|at| (at, cost)));
        }
        // Sometimes an old charge is refunded.
        if round % 7 == 3 && !charged.is_empty() {
            let (at, cost) =
                charged[charged.len() - 1 - usize::try_from(random.below(600)).expect("small") % charged.len()];
            let now = Timestamp::from_micros(now);
            let shared = store.at(now).refund(policy, &key, cost, at).await.expect("redis answers");
            assert_eq!(shared, memory.refund(policy, &key, cost, at, now), "round {round}");
        }
    }
    let shown = store.at(Timestamp::from_micros(now)).inspect(policy, &key).await.expect("redis answers");
    let own = memory.inspect(policy, &key, Timestamp::from_micros(now));
    let used = |shown: Option<tidegate::Inspection>| {
        shown.map(|shown| shown.limits.iter().map(|limit| (limit.used, limit.reset_after)).collect::<Vec<_>>())
    };
    assert_eq!(used(shown), used(own));
}

fn policy(limits: &[&str]) -> Policy {
    Policy::new("long", limits.iter().map(|limit| limit.parse().expect("a limit"))).expect("a policy")
}

/// A store with a long timeout for busy machines.
fn store_with_long_timeout(server: &Server) -> RedisStoreBuilder {
    RedisStore::builder(&server.url()).timeout(Duration::from_secs(60))
}

async fn store(server: &Server) -> RedisStore {
    let store = store_with_long_timeout(server).connect().expect("a store");
    store.ready().await;
    store
}

#[tokio::test]
async fn thousands_of_entries_agree_at_the_default_page_size() {
    let server = Server::start();
    let store = store(&server).await;
    agree(&store, &policy(&["9000/10s"]), 30_000, 3, false).await;
}

#[tokio::test]
async fn several_limits_agree_over_thousands_of_entries() {
    let server = Server::start();
    let store = store(&server).await;
    agree(&store, &policy(&["400/300ms", "9000/10s", "2000/2s"]), 20_000, 3, false).await;
}

#[tokio::test]
async fn many_small_pages_and_nodes_agree() {
    let server = Server::start();
    let store = store_with_long_timeout(&server).page(3).connect().expect("a store");
    store.ready().await;
    agree(&store, &policy(&["900/1s", "300/200ms"]), 10_000, 3, false).await;
}

/// More units pass through the log than a double can represent exactly.
#[tokio::test]
async fn sums_beyond_two_to_the_53_agree() {
    let server = Server::start();
    let store = store(&server).await;
    agree(&store, &policy(&["1000000000000/100ms"]), 12_000, 1_000_000_000_000, true).await;
    let two = store_with_long_timeout(&server).page(2).connect().expect("a store");
    two.ready().await;
    agree(&two, &policy(&["1000000000000/100ms", "1000000000000/10ms"]), 12_000, 1_000_000_000_000, true).await;
}

/// Charges about `entries` times, waits for an idle period, and then requests several decisions.
/// Redis and the in-memory store give the same answers, and so does the model if it is not too slow.
async fn agree_after_an_idle_period(
    store: &RedisStore,
    model_policy: &ModelPolicy,
    entries: u64,
    idle_periods: &[Micros],
    with_model: bool,
) {
    let model_request = |cost: u64| ModelRequest::new(model_policy, cost.into());
    let policy = convert::policy(&model_request(1));
    let window = model_policy.longest_window();
    for idle in idle_periods {
        let (mut model, memory) = (Model::default(), MemoryStore::default());
        let key = Key::new(&format!("idle for {idle} {:?}", model_policy.algorithm)).expect("a key").into_owned();
        let mut random = PseudoRandom(3);
        let mut now = 1_700_000_000_000_000;
        let mut requests = Vec::new();
        let gap = u64::try_from(window * 7 / 8 * 2).expect("it fits") / entries;
        for _ in 0..entries {
            now += 1 + Micros::from(random.below(gap));
            requests.push((Op::Charge, 1, now));
        }
        now += idle;
        for (later, op, cost) in [
            (0, Op::Check, 125),
            (0, Op::Check, 1),
            (5, Op::Check, 1),
            (5, Op::Peek, 400),
            (6, Op::Charge, 2),
            (9, Op::Check, 3),
        ] {
            requests.push((op, cost, now + later));
        }
        for _ in 0..300 {
            now += 10 + Micros::from(random.below(gap));
            requests.push((Op::Check, 1 + random.below(3), now));
        }
        for some in requests.chunks(200) {
            let one = |(op, cost, at): &(Op, u64, Micros)| {
                (*op, convert::cost(&model_request(*cost)), convert::timestamp(*at))
            };
            let shared = join_all(some.iter().map(async |request| {
                let (op, cost, at) = one(request);
                store.at(at).decide(op, &policy, &key, cost).await
            }));
            for (request, shared) in some.iter().zip(shared.await) {
                let (op, cost, at) = one(request);
                let shared = shared.expect("redis answers");
                let context = format!("{model_policy:?}, idle for {idle} us: {request:?}");
                assert_eq!(shared, memory.decide(op, &policy, &key, cost, at), "{context}: redis left, memory right");
                if with_model {
                    let expected = model.decide(request.0, &model_request(request.1), request.2);
                    assert_eq!(
                        convert::decision(&shared, 0, &model_request(request.1)),
                        expected,
                        "{context}: redis left, the model right"
                    );
                }
            }
        }
    }
}

/// The clock goes far back when no sealed page is left, but the node of the dropped pages is.
#[tokio::test]
async fn pages_sealed_after_the_clock_went_far_back_are_found() {
    let server = Server::start();
    for entries in [2, 3] {
        let store = store_with_long_timeout(&server).page(entries).connect().expect("a store");
        store.ready().await;
        for gone in 4..20 {
            let (policy, memory) = (policy(&["1000/100s", "1000/50s"]), MemoryStore::default());
            let key = Key::new(&format!("back {gone}")).expect("a key").into_owned();
            let charge = async |at: u64| {
                let at = Timestamp::from_micros(at);
                let shared = store.at(at).decide(Op::Charge, &policy, &key, Cost::ONE).await.expect("redis answers");
                assert_eq!(shared, memory.decide(Op::Charge, &policy, &key, Cost::ONE, at), "{gone} at {at:?}");
            };
            let start = 1_700_000_000_000_000;
            for i in 0..gone {
                charge(start + i).await;
            }
            // Enough charges after the silence to drop every page.
            for _ in 0..5 {
                charge(start + 150_000_000).await;
            }
            let back = start - 1_000_000_000;
            for i in 0..30 {
                charge(back + i).await;
            }
            let now = Timestamp::from_micros(back + 30);
            for i in 0..30 {
                let at = Timestamp::from_micros(back + i);
                let shared = store.at(now).refund(&policy, &key, Cost::ONE, at).await.expect("redis answers");
                assert_eq!(shared, memory.refund(&policy, &key, Cost::ONE, at, now), "{gone}, charged at {at:?}");
            }
        }
    }
}

/// Idle periods of about a window: just below, equal, just above, and up to a quarter more, while the key still exists.
fn idle_periods(window: Micros) -> [Micros; 7] {
    [window * 7 / 8, window - 1, window, window + 1, window * 9 / 8, window * 41 / 36, window * 5 / 4]
}

const HOUR: Micros = 3_600_000_000;

#[tokio::test]
async fn a_long_log_drops_all_entries_after_an_idle_window() {
    let server = Server::start();
    let store = store(&server).await;
    let policy = ModelPolicy::new(ModelAlgorithm::SlidingLog, vec![ModelLimit::new(1_000, HOUR)]);
    agree_after_an_idle_period(&store, &policy, 700, &idle_periods(HOUR), true).await;
}

#[tokio::test]
async fn a_long_log_of_several_limits_drops_all_entries_after_an_idle_window() {
    let server = Server::start();
    let store = store(&server).await;
    let limits = vec![ModelLimit::new(50, HOUR / 60), ModelLimit::new(1_000, HOUR), ModelLimit::new(400, HOUR / 4)];
    let policy = ModelPolicy::new(ModelAlgorithm::SlidingLog, limits);
    for silent in [HOUR / 60, HOUR / 4, HOUR] {
        agree_after_an_idle_period(&store, &policy, 650, &idle_periods(silent)[2..5], true).await;
    }
}

#[tokio::test]
async fn many_buckets_drop_all_units_after_an_idle_window() {
    let server = Server::start();
    let store = store(&server).await;
    let policy = ModelPolicy::new(ModelAlgorithm::SlidingBuckets(1_000), vec![ModelLimit::new(1_000, HOUR)]);
    agree_after_an_idle_period(&store, &policy, 1_800, &idle_periods(HOUR), false).await;
}

#[tokio::test]
async fn thousands_of_entries_are_dropped_after_an_idle_window() {
    let server = Server::start();
    let store = store(&server).await;
    let policy = ModelPolicy::new(ModelAlgorithm::SlidingLog, vec![ModelLimit::new(9_000, HOUR)]);
    agree_after_an_idle_period(&store, &policy, 6_000, &[HOUR - 1, HOUR, HOUR * 5 / 4], false).await;
}

#[tokio::test]
async fn small_pages_are_dropped_after_an_idle_window() {
    let server = Server::start();
    for entries in [2, 3] {
        let store = store_with_long_timeout(&server).page(entries).connect().expect("a store");
        store.ready().await;
        for algorithm in [ModelAlgorithm::SlidingLog, ModelAlgorithm::SlidingBuckets(60)] {
            let policy =
                ModelPolicy::new(algorithm, vec![ModelLimit::new(100, HOUR + Micros::try_from(entries).expect("few"))]);
            agree_after_an_idle_period(&store, &policy, 40, &idle_periods(HOUR), true).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_does_not_change_its_form_while_its_slot_is_moved_and_is_not_lost() {
    let cluster = tidegate_testbed::Cluster::start(2, 0);
    let store =
        RedisStore::builder(&cluster.url()).timeout(std::time::Duration::from_secs(1)).connect().expect("a store");
    store.ready().await;
    let before = Policy::new("p", ["1000/1h".parse().expect("a limit")]).expect("a policy");
    let after = before.clone().with_algorithm("sliding_buckets:6".parse().expect("an algorithm"));
    let before = before.with_algorithm("sliding_counter".parse().expect("an algorithm"));
    let key = Key::new("mover").expect("a key");
    assert_eq!(store.check(&before, &key, Cost::new(5).expect("a cost")).await.expect("a decision").used(), 5);
    let slot = cluster.key_slot(store.key_name(&before, &key));
    let moving = cluster.begin_move(slot, 1 - cluster.master_of_slot(slot));
    let during = store.check(&after, &key, Cost::ONE).await.expect("a decision");
    assert!(during.is_degraded() && store.stats().errors.contains_key("moving"), "{during:?} {:?}", store.stats());
    assert_eq!(
        store.check(&before, &key, Cost::ONE).await.expect("a decision").used(),
        6,
        "what keeps its form goes on"
    );
    assert_eq!(moving.move_keys(1), 1);
    moving.finish();
    assert_eq!(store.check(&after, &key, Cost::ONE).await.expect("a decision").used(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_exceeds_one_page_while_its_slot_is_moved_loses_nothing() {
    let cluster = tidegate_testbed::Cluster::start(2, 0);
    let builder = RedisStore::builder(&cluster.url()).timeout(std::time::Duration::from_secs(5));
    let store = builder.connect().expect("a store");
    store.ready().await;
    let policy = Policy::new("log", ["1000/1h".parse().expect("a limit")]).expect("a policy");
    let key = Key::new("mover").expect("a key");
    let slot = cluster.key_slot(store.key_name(&policy, &key));
    let spend = async |from: u64, to: u64| {
        for used in from..=to {
            let decision = store.check(&policy, &key, Cost::ONE).await.expect("a decision");
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

/// The move of a slot can take any time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_in_a_slot_that_keeps_moving_has_a_maximum_size_and_loses_no_unit() {
    let cluster = tidegate_testbed::Cluster::start(2, 0);
    let builder = RedisStore::builder(&cluster.url()).timeout(std::time::Duration::from_secs(5)).page(2);
    let store = builder.connect().expect("a store");
    store.ready().await;
    let policy = Policy::new("log", ["1000/1h".parse().expect("a limit")]).expect("a policy");
    let key = Key::new("mover").expect("a key");
    let name = store.key_name(&policy, &key);
    let spend = async |from: u64, to: u64| {
        for used in from..=to {
            let decision = store.check(&policy, &key, Cost::ONE).await.expect("a decision");
            assert_eq!(decision.used(), used, "{:?}", store.stats());
            // A charge that is merged with the one before it, because there is no room, is marked degraded.
            assert_eq!(decision.is_degraded(), (65..=300).contains(&used), "{used}: {:?}", store.stats());
        }
    };
    spend(1, 1).await;
    let slot = cluster.key_slot(&name);
    let source = cluster.master_of_slot(slot);
    let moving = cluster.begin_move(slot, 1 - source);
    spend(2, 300).await;
    let length = cluster.nodes()[source].wire().command([&b"STRLEN"[..], name.as_ref()]).integer();
    assert!(length < 42 + 65 * 8, "{length} bytes of 32 pages of 2 entries");
    assert_eq!(moving.move_keys(1), 1);
    moving.finish();
    spend(301, 400).await;
}

#[tokio::test]
async fn an_inspection_lists_as_many_entries_as_in_memory_and_counts_the_others() {
    let server = Server::start();
    let store = store(&server).await;
    let buckets = "sliding_buckets:1000".parse().expect("an algorithm");
    for policy in [policy(&["9000/1000s"]), policy(&["9000/1000s"]).with_algorithm(buckets)] {
        let memory = MemoryStore::default();
        let key = Key::new(&format!("seen {:?}", policy.algorithm())).expect("a key").into_owned();
        // At least one entry for each bucket; some are refunded.
        let times: Vec<Timestamp> =
            (0..2_002).map(|i| Timestamp::from_micros(1_700_000_000_000_500 + i * 500_000)).collect();
        let charges =
            join_all(times.iter().map(async |at| store.at(*at).decide(Op::Charge, &policy, &key, Cost::ONE).await));
        for (at, shared) in times.iter().zip(charges.await) {
            assert_eq!(shared.expect("redis answers"), memory.decide(Op::Charge, &policy, &key, Cost::ONE, *at));
        }
        let now = *times.last().expect("some");
        for at in times.iter().step_by(7) {
            let shared = store.at(now).refund(&policy, &key, Cost::ONE, *at).await.expect("redis answers");
            assert_eq!(shared, memory.refund(&policy, &key, Cost::ONE, *at, now));
        }
        let shared = store.at(now).inspect(&policy, &key).await.expect("redis answers");
        assert_eq!(shared, memory.inspect(&policy, &key, now), "redis left, memory right");
    }
}
