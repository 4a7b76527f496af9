//! Leases through Redis: the same answers as in memory, also for requests of one batch, and few commands.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::join_all;
use proptest::prelude::*;
use tidegate::{
    Algorithm, Buckets, Cost, Decision, Hold, Key, Lease, MemoryStore, Op, Policy, ReservationId, Store as _, Timestamp,
};
use tidegate_conformance::settings;
use tidegate_redis::RedisStore;
use tidegate_testbed::{Server, Wire};
use tokio::runtime::Runtime;

const START: u64 = 1_700_000_000_000_000;

static SERVER: LazyLock<Server> = LazyLock::new(Server::start);
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
/// Stores with pages of 2, 3 and the default number of entries.
static STORES: LazyLock<[RedisStore; 3]> = LazyLock::new(|| {
    let _inside = RUNTIME.enter();
    let url = SERVER.url();
    // A busy machine is not an outage.
    let builder = || RedisStore::builder(&url).timeout(Duration::from_secs(60));
    let with_page = |entries| builder().page(entries).connect().expect("a store");
    let stores = [with_page(2), with_page(3), builder().connect().expect("a store")];
    // The first reservation reads the secret of the ids. Later requests are decided in the order in which they are sent.
    for store in &stores {
        RUNTIME.block_on(async {
            store.ready().await;
            let (policy, key) = (policy(Algorithm::SlidingLog, &["1/1s"]), Key::new("first").expect("a key"));
            let _ = store
                .reserve(&policy, &key, Cost::ONE, Hold::new(Duration::from_secs(1)))
                .await
                .expect("redis answers");
        });
    }
    stores
});

fn policy(algorithm: Algorithm, limits: &[&str]) -> Policy {
    let limits = limits.iter().map(|limit| limit.parse().expect("a limit"));
    Policy::new("leases", limits).expect("a policy").with_algorithm(algorithm)
}

fn cost(units: u64) -> Cost {
    Cost::new(units).expect("in range")
}

#[derive(Debug, Clone)]
enum Request {
    Decide(Op, u64),
    /// Asked and least units, milliseconds of the term, and the earlier lease to settle with the share that was spent.
    Lease(u64, u64, u64, Option<(usize, u64)>),
    Settle(usize, u64),
    Reserve(u64),
}

/// A request of a batch: microseconds after the one before, and the number of its key.
type Step = (u64, usize, Request);

fn request() -> impl Strategy<Value = Request> {
    let op = prop_oneof![4 => Just(Op::Check), 1 => Just(Op::Peek), 1 => Just(Op::Charge)];
    let earlier = || (0..4_usize, 0..=4_u64);
    let lease = (1..30_u64, 1..20_u64, 1..300_u64, prop::option::weighted(0.6, earlier()));
    prop_oneof![
        8 => (op, prop_oneof![4 => 1..4_u64, 1 => 5..60_u64]).prop_map(|(op, units)| Request::Decide(op, units)),
        8 => lease.prop_map(|(asked, least, ttl, settle)| Request::Lease(asked.max(least), least.min(asked), ttl, settle)),
        4 => earlier().prop_map(|(lease, spent)| Request::Settle(lease, spent)),
        1 => (1..5_u64).prop_map(Request::Reserve),
    ]
}

fn batches() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let elapsed = prop_oneof![2 => Just(0), 4 => 1..3_000_u64, 1 => 3_000..400_000_u64];
    let batch = prop::collection::vec((elapsed, 0..2_usize, request()), 1..12);
    prop::collection::vec(batch, settings::steps(30))
}

fn policies() -> impl Strategy<Value = Policy> {
    let algorithms = vec![
        Algorithm::SlidingLog,
        Algorithm::SlidingLog,
        Algorithm::SlidingCounter,
        Algorithm::FixedWindow,
        Algorithm::Gcra(None),
        Algorithm::SlidingBuckets(Buckets::new(7).expect("in range")),
    ];
    let limits = vec![vec!["40/1s"], vec!["900/1s"], vec!["60/700ms"], vec!["50/1s", "30/300ms"]];
    (prop::sample::select(algorithms), prop::sample::select(limits))
        .prop_map(|(algorithm, limits)| policy(algorithm, &limits))
}

/// A lease in Redis and in memory.
#[derive(Clone)]
struct LeaseOfBoth {
    ids: [ReservationId; 2],
    units: u64,
}

/// What an operation answers: the decision, the granted units, and whether the lease to settle was open.
#[derive(Debug, PartialEq)]
struct Answer(Decision, u64, Option<bool>);

struct Both {
    redis: &'static RedisStore,
    memory: MemoryStore,
    policy: Policy,
    keys: [Key<'static>; 2],
    /// The newest leases of each key.
    leases: [Vec<LeaseOfBoth>; 2],
    now: u64,
}

/// A step with its time and the earlier lease that it settles.
struct Planned {
    at: Timestamp,
    key: usize,
    request: Request,
    settles: Option<(LeaseOfBoth, u64)>,
}

impl Both {
    fn plan(&self, now: &mut u64, (elapsed, key, request): Step) -> Planned {
        *now += elapsed;
        let (Request::Lease(_, _, _, Some((number, share))) | Request::Settle(number, share)) = request else {
            return Planned { at: Timestamp::from_micros(*now), key, request, settles: None };
        };
        let lease = self.leases[key].iter().rev().nth(number).cloned();
        let settles = lease.map(|lease| {
            let spent = lease.units * share / 4;
            (lease, spent)
        });
        Planned { at: Timestamp::from_micros(*now), key, request, settles }
    }

    async fn in_redis(&self, planned: &Planned) -> (Answer, Option<ReservationId>) {
        let (store, key) = (self.redis.at(planned.at), &self.keys[planned.key]);
        match planned.request {
            Request::Decide(op, units) => {
                let decision = store.decide(op, &self.policy, key, cost(units)).await.expect("redis answers");
                (Answer(decision, 0, None), None)
            }
            Request::Reserve(units) => {
                let hold = Hold::new(Duration::from_millis(50));
                let reserved = store.reserve(&self.policy, key, cost(units), hold).await.expect("redis answers");
                (Answer(reserved.decision, 0, None), None)
            }
            Request::Lease(..) => {
                let lease = planned.lease(0);
                let leased = store.lease(&self.policy, key, &lease).await.expect("redis answers");
                (Answer(leased.decision, leased.granted, leased.settled), leased.id)
            }
            Request::Settle(..) => {
                let Some((lease, spent)) = &planned.settles else { return self.nothing(planned) };
                let settled = store.settle(&lease.ids[0], *spent, &self.policy).await.expect("redis answers");
                (Answer(settled.decision, 0, Some(settled.known)), None)
            }
        }
    }

    fn in_memory(&self, planned: &Planned) -> (Answer, Option<ReservationId>) {
        let (store, key, at) = (&self.memory, &self.keys[planned.key], planned.at);
        match planned.request {
            Request::Decide(op, units) => (Answer(store.decide(op, &self.policy, key, cost(units), at), 0, None), None),
            Request::Reserve(units) => {
                let hold = Hold::new(Duration::from_millis(50));
                let reserved = store.reserve(&self.policy, key, cost(units), hold, at).expect("well-formed");
                (Answer(reserved.decision, 0, None), None)
            }
            Request::Lease(..) => {
                let leased = store.lease(&self.policy, key, &planned.lease(1), at).expect("well-formed");
                (Answer(leased.decision, leased.granted, leased.settled), leased.id)
            }
            Request::Settle(..) => {
                let Some((lease, spent)) = &planned.settles else { return self.nothing(planned) };
                let settled = store.settle(&lease.ids[1], *spent, &self.policy, at).expect("well-formed");
                (Answer(settled.decision, 0, Some(settled.known)), None)
            }
        }
    }

    /// The answer if there is no lease to settle.
    fn nothing(&self, planned: &Planned) -> (Answer, Option<ReservationId>) {
        let empty = MemoryStore::default();
        (Answer(empty.decide(Op::Peek, &self.policy, &self.keys[planned.key], Cost::ONE, planned.at), 0, None), None)
    }

    fn run(&mut self, batch: Vec<Step>) -> Result<(), TestCaseError> {
        let mut now = self.now;
        let planned: Vec<Planned> = batch.into_iter().map(|step| self.plan(&mut now, step)).collect();
        self.now = now;
        let of_redis = RUNTIME.block_on(join_all(planned.iter().map(|planned| self.in_redis(planned))));
        for (planned, (answer, id)) in planned.iter().zip(of_redis) {
            let (expected, expected_id) = self.in_memory(planned);
            prop_assert_eq!(&answer, &expected, "{:?} at {:?}", &planned.request, planned.at);
            if let (Some(id), Some(expected_id)) = (id, expected_id) {
                self.leases[planned.key].push(LeaseOfBoth { ids: [id, expected_id], units: answer.1 });
            }
        }
        Ok(())
    }
}

impl Planned {
    /// The request for a lease; `store` is 0 for Redis and 1 for memory.
    fn lease(&self, store: usize) -> Lease {
        let Request::Lease(asked, fewest, ttl, _) = self.request else { unreachable!("it is a lease") };
        let lease = Lease::new(cost(asked), Duration::from_millis(ttl)).least(cost(fewest));
        match &self.settles {
            Some((earlier, spent)) => lease.settling(earlier.ids[store].clone(), *spent),
            None => lease,
        }
    }
}

proptest! {
    #![proptest_config(settings::config(300))]

    #[test]
    fn requests_of_one_batch_on_keys_with_leases_are_answered_as_in_memory(
        policy in policies(),
        store in 0..3_usize,
        batches in batches(),
    ) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Relaxed).to_be_bytes();
        let key = |name: &[u8]| Key::join([&number[..], name]).expect("a short key").into_owned();
        let mut both = Both {
            redis: &STORES[store],
            memory: MemoryStore::default(),
            policy,
            keys: [key(b"alice"), key(b"bob")],
            leases: [Vec::new(), Vec::new()],
            now: START,
        };
        for batch in batches {
            both.run(batch)?;
        }
    }
}

/// The number of commands that Redis has executed, without those of this function.
fn commands(wire: &mut Wire) -> u64 {
    let stats = wire.command(["INFO", "commandstats"]).as_str_lossy().into_owned();
    let of_keys = stats.lines().filter(|line| line.starts_with("cmdstat_") && !line.starts_with("cmdstat_info"));
    of_keys.filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok()).sum()
}

#[tokio::test]
async fn an_operation_on_a_key_with_leases_reads_and_writes_it_once() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url())
        .timeout(Duration::from_secs(60))
        .without_health_checks()
        .connect()
        .expect("a store");
    store.ready().await;
    let mut wire = server.wire();
    for algorithm in [Algorithm::SlidingLog, Algorithm::SlidingCounter, Algorithm::FixedWindow, Algorithm::Gcra(None)] {
        let policy = policy(algorithm, &["100000/1h"]);
        let name = format!("{algorithm:?}");
        let key = Key::new(&name).expect("a key");
        let at = |micros: u64| store.at(Timestamp::from_micros(START + micros));
        let lease = |settle: Option<ReservationId>| {
            let lease = Lease::new(cost(10), Duration::from_secs(5));
            settle.into_iter().fold(lease, |lease, id| lease.settling(id, 7))
        };
        let check = async |micros| {
            assert!(at(micros).check(&policy, &key, Cost::ONE).await.expect("redis answers").is_allowed());
        };
        check(0).await;
        let first = at(1).lease(&policy, &key, &lease(None)).await.expect("redis answers").id.expect("it fits");
        // The script, TIME, a read and a write.
        let before = commands(&mut wire);
        let second = at(2).lease(&policy, &key, &lease(Some(first))).await.expect("redis answers");
        assert_eq!((second.granted, second.settled), (10, Some(true)), "{algorithm:?}");
        assert_eq!(commands(&mut wire) - before, 4, "{algorithm:?}: a lease");
        let before = commands(&mut wire);
        check(3).await;
        assert_eq!(commands(&mut wire) - before, 4, "{algorithm:?}: a check");
        let before = commands(&mut wire);
        let settled = at(4).settle(&second.id.expect("it fits"), 3, &policy).await.expect("redis answers");
        assert!(settled.known, "{algorithm:?}");
        assert_eq!(commands(&mut wire) - before, 4, "{algorithm:?}: a settle");
        assert_eq!(settled.decision.used(), 12, "{algorithm:?}");
    }
}

#[tokio::test]
async fn a_key_can_have_many_leases_at_once() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(60)).connect().expect("a store");
    store.ready().await;
    let memory = MemoryStore::default();
    let policy = policy(Algorithm::SlidingLog, &["100000/1h"]);
    let key = Key::new("many").expect("a key");
    let mut ids = Vec::new();
    // More than fit in front of a state.
    for i in 0..40 {
        let now = Timestamp::from_micros(START + i);
        let lease = Lease::new(cost(3), Duration::from_micros(9_000_000 - 2 * i));
        let leased = store.at(now).lease(&policy, &key, &lease).await.expect("redis answers");
        let expected = memory.lease(&policy, &key, &lease, now).expect("well-formed");
        assert_eq!((leased.decision, leased.granted), (expected.decision, expected.granted), "lease {i}");
        ids.push((leased.id.expect("it fits"), expected.id.expect("it fits")));
    }
    for (i, (id, expected)) in (100..).zip(ids) {
        let now = Timestamp::from_micros(START + i);
        let settled = store.at(now).settle(&id, i % 4, &policy).await.expect("redis answers");
        let expected = memory.settle(&expected, i % 4, &policy, now).expect("well-formed");
        assert_eq!((settled.decision, settled.known), (expected.decision, expected.known), "settle {i}");
    }
    let shown = store.at(Timestamp::from_micros(START + 200)).inspect(&policy, &key).await.expect("redis answers");
    assert!(shown.expect("a state").reservations.is_empty());
}
