//! Holds, leases and limits on the units in open holds, through Redis.

mod changed_windows;
mod failures;
mod processes;
mod slots;

use std::time::Duration;

use futures_util::future::join_all;
use tidegate::{
    Algorithm, Buckets, Cost, Hold, Key, Lease, Limiter, MemoryStore, Op, Policy, Reason, ReservationError,
    ReservationId, Reserved, Settled, Spend, Store as _, StoreError, Timestamp,
};
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

/// A busy machine must not count as an outage.
const TIMEOUT: Duration = Duration::from_secs(300);
const START: u64 = 1_700_000_000_000_000;
const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::SlidingLog, Algorithm::SlidingCounter, Algorithm::FixedWindow, Algorithm::Gcra(None)];

fn policy(name: &str, limits: &[&str]) -> Policy {
    Policy::new(name, limits.iter().map(|limit| limit.parse().expect("a limit"))).expect("a policy")
}

fn key(name: &str) -> Key<'static> {
    Key::new(name).expect("a key").into_owned()
}

fn cost(units: u64) -> Cost {
    Cost::new(units).expect("in range")
}

fn at(store: &RedisStore, micros: u64) -> RedisStore {
    store.at(Timestamp::from_micros(START + micros))
}

async fn store_of(server: &Server) -> RedisStore {
    let store = RedisStore::builder(&server.url()).timeout(TIMEOUT).connect().expect("a store");
    store.ready().await;
    store
}

async fn reserve(store: &RedisStore, policy: &Policy, key: &Key<'_>, units: u64, ttl: Duration) -> Reserved {
    store.reserve(policy, key, cost(units), Hold::new(ttl)).await.expect("redis answers")
}

async fn commit(store: &RedisStore, id: &ReservationId, actual: u64, policy: &Policy) -> Settled {
    store.commit(id, &[actual], policy).await.expect("redis answers")
}

/// The units in use under the first limit.
async fn used(store: &RedisStore, policy: &Policy, key: &Key<'_>) -> u64 {
    store.inspect(policy, key).await.expect("redis answers").map_or(0, |shown| shown.limits[0].used)
}

#[tokio::test]
async fn a_key_can_have_a_thousand_open_holds_that_all_end_at_once() {
    let server = Server::start();
    let store = store_of(&server).await;
    // The first reservation reads the secret of the ids. Later ones are granted in the order of their requests.
    reserve(&store, &policy("first", &["1/1s"]), &key("first"), 1, Duration::from_secs(1)).await.id.expect("it fits");
    let buckets = Algorithm::SlidingBuckets(Buckets::new(10).expect("in range"));
    for algorithm in ALGORITHMS.into_iter().chain([buckets]) {
        let policy = policy("thousand", &["5000/1d", "3000/inflight"]).with_algorithm(algorithm);
        let key = key(&format!("{algorithm:?}"));
        // A thousand grants, a microsecond apart, that all end 10 seconds after the first one.
        for first in (0..1000).step_by(100) {
            let granted = join_all((first..first + 100).map(async |i| {
                let ttl = Duration::from_micros(10_000_000 - i);
                reserve(&at(&store, i), &policy, &key, 3, ttl).await.decision.reason()
            }));
            assert_eq!(granted.await, [Reason::Allowed; 100], "{algorithm:?}");
        }
        let one_more = reserve(&at(&store, 1000), &policy, &key, 1, Duration::from_secs(1)).await;
        assert_eq!((one_more.decision.reason(), one_more.id), (Reason::Limited, None), "{algorithm:?}");
        assert_eq!(one_more.decision.retry_after(), Some(Duration::from_micros(9_999_000)), "{algorithm:?}");
        let shown = at(&store, 9_999_999).inspect(&policy, &key).await.expect("redis answers").expect("a state");
        assert_eq!((shown.reservations.len(), shown.limits[0].used, shown.limits[1].used), (1000, 3000, 3000));
        // A debt has drained meanwhile, so less of it is given back.
        let left = if algorithm == Algorithm::Gcra(None) { 579 } else { 0 };
        // All of them end at once, and another thousand fits.
        let after = reserve(&at(&store, 10_000_000), &policy, &key, 3000, Duration::from_secs(1)).await;
        assert_eq!(after.decision.reason(), Reason::Allowed, "{algorithm:?}");
        let shown = at(&store, 10_000_000).inspect(&policy, &key).await.expect("redis answers").expect("a state");
        assert_eq!((shown.reservations.len(), shown.limits[1].used), (1, 3000), "{algorithm:?}");
        assert_eq!(shown.limits[0].used, left + 3000, "{algorithm:?}");
    }
}

#[tokio::test]
async fn units_that_are_never_settled_come_back_at_the_end() {
    let server = Server::start();
    let store = store_of(&server).await;
    for algorithm in ALGORITHMS {
        let policy = policy("end", &["10/1h", "8/inflight"]).with_algorithm(algorithm);
        let (released, spent) = (key(&format!("released {algorithm:?}")), key(&format!("spent {algorithm:?}")));
        let hold = Hold::new(Duration::from_secs(10));
        for (key, hold) in [(&released, hold), (&spent, hold.spent_at_end())] {
            let reserved = at(&store, 0).reserve(&policy, key, cost(8), hold).await.expect("redis answers");
            let id = reserved.id.expect("it fits");
            let before = at(&store, 9_999_999).inspect(&policy, key).await.expect("redis answers").expect("a state");
            assert_eq!(before.limits.iter().map(|limit| limit.used).collect::<Vec<_>>(), [8, 8], "{algorithm:?}");
            let after = at(&store, 10_000_000).inspect(&policy, key).await.expect("redis answers").expect("a state");
            let charged = if *key == released { 0 } else { 8 };
            // A debt that drains meanwhile gives back what is left of it.
            assert_eq!(after.limits.iter().map(|limit| limit.used).collect::<Vec<_>>(), [charged, 0], "{algorithm:?}");
            assert!(!commit(&at(&store, 10_000_000), &id, 8, &policy).await.known, "it has ended");
            assert_eq!(used(&at(&store, 10_000_000), &policy, key).await, charged, "nothing was changed");
        }
    }
}

#[tokio::test]
async fn each_reservation_that_ends_by_itself_is_counted_once() {
    let server = Server::start();
    let store = store_of(&server).await;
    let ended = || store.stats().reservations_ended;
    let (policy, alice, bob) = (policy("counted", &["100/1h"]), key("alice"), key("bob"));
    for (key, ttl) in [(&alice, 1), (&alice, 2), (&bob, 2), (&alice, 3)] {
        assert!(reserve(&at(&store, 0), &policy, key, 1, Duration::from_secs(ttl)).await.id.is_some());
    }
    let lease = Lease::new(cost(1), Duration::from_secs(2));
    assert_eq!(at(&store, 0).lease(&policy, &bob, &lease).await.expect("redis answers").granted, 1);
    let settled = reserve(&at(&store, 0), &policy, &bob, 1, Duration::from_secs(1)).await.id.expect("it fits");
    assert!(commit(&at(&store, 0), &settled, 0, &policy).await.known);
    let peek = async |key, micros| at(&store, micros).peek(&policy, key, cost(1)).await.expect("redis answers").used();
    assert_eq!((peek(&alice, 2_000_000).await, ended()), (1, 0), "a peek stores nothing");
    let checks = [&alice, &bob].map(|key| Spend { policy: &policy, key, cost: cost(1) });
    let decided = at(&store, 2_000_000).check_all(&checks).await.expect("redis answers");
    assert_eq!((decided.overall.reason(), ended()), (Reason::Allowed, 4));
    let _ = at(&store, 2_000_001).check(&policy, &alice, cost(1)).await.expect("redis answers");
    assert_eq!(ended(), 4);
    // A denial stores the end, too.
    let denied = at(&store, 3_000_000).check(&policy, &alice, cost(100)).await.expect("redis answers");
    assert_eq!((denied.reason(), ended()), (Reason::Limited, 5));
}

#[tokio::test]
async fn a_hold_is_settled_once_whatever_is_repeated() {
    let server = Server::start();
    let (store, other_node) = (store_of(&server).await, store_of(&server).await);
    let policy = policy("tokens", &["1000/1h"]);
    let alice = key("alice");
    let id = reserve(&store, &policy, &alice, 400, Duration::from_secs(60)).await.id.expect("it fits");
    let text = id.to_string();
    let id: ReservationId = text.parse().expect("an id");
    // Any node that shares the Redis finds it.
    let settled = commit(&other_node, &id, 250, &policy).await;
    assert_eq!((settled.known, settled.decision.remaining()), (true, 750));
    for _ in 0..3 {
        let settled = commit(&store, &id, 0, &policy).await;
        assert_eq!((settled.known, settled.decision.remaining()), (false, 750));
        let settled = store.renew(&id, Duration::from_secs(1), &policy).await.expect("redis answers");
        assert!(!settled.known);
        assert!(!store.settle(&id, 0, &policy).await.expect("redis answers").known);
    }
    assert_eq!((store.stats().grants, store.stats().unknown_commits), (1, 9));
}

#[tokio::test]
async fn ids_cannot_be_guessed_or_used_for_another_key() {
    let server = Server::start();
    let store = store_of(&server).await;
    let (policy, other) = (policy("a", &["100/1h"]), policy("b", &["100/1h"]));
    let (alice, bob) = (key("alice"), key("bob"));
    let minute = Duration::from_secs(60);
    let own = reserve(&store, &policy, &alice, 7, minute).await.id.expect("it fits");
    let again = reserve(&store, &policy, &alice, 7, minute).await.id.expect("it fits");
    let of_bob = reserve(&store, &policy, &bob, 7, minute).await.id.expect("it fits");
    reserve(&store, &other, &alice, 7, minute).await.id.expect("it fits");
    assert_ne!(own.place(), again.place(), "the places of one key have nothing in common");
    // The number of one reservation with the place of another, and with the name of another policy.
    let mut forged = vec![
        ReservationId::new(&policy, own.nonce(), &of_bob.place()).expect("an id"),
        ReservationId::new(&policy, of_bob.nonce(), &own.place()).expect("an id"),
        ReservationId::new(&other, own.nonce(), &own.place()).expect("an id"),
    ];
    // Ids that differ in one character.
    let text = own.to_string();
    let start = text.find('.').expect("a dot") + 1;
    for position in start..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).expect("text").parse();
        forged.extend(changed.into_iter().filter(|id: &ReservationId| *id != own));
    }
    assert!(forged.len() > 40, "{} forged ids", forged.len());
    for id in &forged {
        let settled = store.commit(id, &[0], &vec![policy.clone(), other.clone()]).await.expect("redis answers");
        assert!(!settled.known, "{id}");
    }
    for (policy, key, units) in [(&policy, &alice, 14), (&policy, &bob, 7), (&other, &alice, 7)] {
        assert_eq!(used(&store, policy, key).await, units, "no hold was closed");
    }
    assert!(commit(&store, &own, 0, &policy).await.known);
}

#[tokio::test]
async fn a_lease_is_granted_whatever_unknown_id_it_settles() {
    let (server, elsewhere) = (Server::start(), Server::start());
    let store = store_of(&server).await;
    let (policy, alice, bob) = (policy("hot", &["1000/1h"]), key("alice"), key("bob"));
    let lease = Lease::new(cost(10), Duration::from_secs(10));
    let other_redis = store_of(&elsewhere).await.lease(&policy, &alice, &lease).await.expect("redis answers");
    let in_memory = Limiter::default().reserve(&policy, &alice, cost(1), Hold::new(Duration::from_secs(1)));
    for unknown in [
        ReservationId::never_granted(&policy, [7; 16]),
        other_redis.id.expect("it fits"),
        in_memory.expect("well-formed").id.expect("it fits"),
    ] {
        let mut lease = lease.clone();
        lease.settle = Some((unknown, 3));
        let leased = store.lease(&policy, &alice, &lease).await.expect("redis answers");
        assert_eq!((leased.settled, leased.granted), (Some(false), 10));
    }
    let of_bob = store.lease(&policy, &bob, &lease).await.expect("redis answers");
    let mut wrong = lease.clone();
    wrong.settle = Some((of_bob.id.expect("it fits"), 3));
    let error = store.lease(&policy, &alice, &wrong).await.expect_err("a lease of another key");
    assert_eq!(error, StoreError::Reservation(ReservationError::OtherKey));
}

#[tokio::test]
async fn fifty_calls_at_once_spend_at_most_the_hundred_tokens() {
    let server = Server::start();
    let (one, two) = (store_of(&server).await, store_of(&server).await);
    for algorithm in ALGORITHMS {
        let policy = policy("tokens", &["100/1h"]).with_algorithm(algorithm);
        let key = key(&format!("{algorithm:?}"));
        let call = async |i: usize| {
            let store = if i.is_multiple_of(2) { &one } else { &two };
            let reserved = reserve(store, &policy, &key, 20, Duration::from_secs(60)).await;
            let id = reserved.id?;
            let settled = commit(store, &id, 20, &policy).await;
            assert!(settled.known);
            Some(20)
        };
        let spent: u64 = join_all((0..50).map(call)).await.into_iter().flatten().sum();
        assert_eq!(spent, 100, "{algorithm:?}");
        assert_eq!(used(&one, &policy, &key).await, 100, "{algorithm:?}");
    }
}

#[tokio::test]
async fn a_key_with_reservations_lives_until_its_last_window_has_passed() {
    let server = Server::start();
    let store = store_of(&server).await;
    let mut wire = server.wire();
    for (limits, least) in [(&["10/1m"][..], 3_600_000 + 60_000), (&["4/inflight"], 3_600_000)] {
        let policy = policy("lives", limits);
        let key = key(limits[0]);
        let id = reserve(&store, &policy, &key, 1, Duration::from_secs(3600)).await.id.expect("it fits");
        let ttl = wire.command([b"PTTL".to_vec(), store.key_name(&policy, &key)]).integer();
        assert!(ttl >= least - 1_000, "{limits:?}: {ttl} ms");
        commit(&store, &id, 1, &policy).await;
        let ttl = wire.command([b"PTTL".to_vec(), store.key_name(&policy, &key)]).integer();
        assert!(ttl > 0, "{limits:?}: it still has an expiry");
    }
}

#[tokio::test]
async fn checks_and_charges_under_an_in_flight_limit_are_refused() {
    let server = Server::start();
    let store = store_of(&server).await;
    let (policy, key) = (policy("jobs", &["4/inflight"]), key("import"));
    for error in [
        store.check(&policy, &key, Cost::ONE).await.expect_err("malformed"),
        store.charge(&policy, &key, Cost::ONE).await.expect_err("malformed"),
        store
            .lease(&policy, &key, &tidegate::Lease::new(Cost::ONE, Duration::from_secs(1)))
            .await
            .map(|_| ())
            .expect_err("malformed"),
    ] {
        assert!(error.is_caused_by_request() && error.to_string().contains("reserve instead"), "{error}");
    }
    let peeked = store.peek(&policy, &key, cost(4)).await.expect("redis answers");
    assert_eq!((peeked.reason(), peeked.remaining()), (Reason::Allowed, 4));
}

#[tokio::test]
async fn a_log_of_several_pages_takes_back_the_units_of_many_holds() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).page(8).timeout(TIMEOUT).connect().expect("a store");
    store.ready().await;
    let (policy, key) = (policy("pages", &["10000/1h", "10000/1d"]), key("alice"));
    // Holds of 1 to 5 units among checks of one unit, several at the same time.
    let mut held = 0;
    for i in 0..300 {
        let now = at(&store, i / 3 * 1000);
        if i % 4 == 0 {
            assert!(now.check(&policy, &key, Cost::ONE).await.expect("redis answers").is_allowed());
        } else {
            let units = 1 + i % 5;
            held += units;
            let ttl = Duration::from_micros(20_000_000 - i / 3 * 1000);
            assert!(reserve(&now, &policy, &key, units, ttl).await.id.is_some());
        }
    }
    assert_eq!(used(&at(&store, 19_999_999), &policy, &key).await, 75 + held);
    let after = at(&store, 20_000_000).check(&policy, &key, Cost::ONE).await.expect("redis answers");
    assert_eq!(after.used(), 76, "only the checks are in use");
    let shown = at(&store, 20_000_000).inspect(&policy, &key).await.expect("redis answers").expect("a state");
    assert_eq!(shown.limits[0].entries.iter().map(|entry| entry.units).sum::<u64>(), 76);
    assert!(shown.reservations.is_empty());
}

#[tokio::test]
async fn holds_whose_entries_have_left_the_window_do_not_shorten_a_wait() {
    let server = Server::start();
    let store = store_of(&server).await;
    let (policy, alice) = (policy("left", &["2/1ms"]), key("alice"));
    for granted in [0, 1] {
        let _ = reserve(&at(&store, granted), &policy, &alice, 1, Duration::from_micros(1002 - granted)).await;
    }
    // Both entries have expired, and both holds end a microsecond later.
    let lease = Lease::new(cost(1), Duration::from_millis(1));
    let leased = at(&store, 1001).lease(&policy, &alice, &lease).await.expect("redis answers");
    assert_eq!((leased.granted, leased.decision.used()), (1, 1));
    assert_eq!(leased.decision.reset_after(), Duration::from_millis(2), "it is charged at its end");
}

#[tokio::test]
async fn a_hold_gives_back_no_units_of_a_lease_that_ends_later() {
    let server = Server::start();
    let store = store_of(&server).await;
    let one_bucket = Algorithm::SlidingBuckets(Buckets::new(1).expect("in range"));
    let (policy, alice) = (policy("bucket", &["3/8ms"]).with_algorithm(one_bucket), key("alice"));
    let held = reserve(&at(&store, 0), &policy, &alice, 1, Duration::from_millis(1)).await;
    let charged_at = held.decision.charged_at().expect("it is charged");
    let refunded = at(&store, 0).refund(&policy, &alice, cost(1), charged_at).await.expect("redis answers");
    assert!(refunded.is_returned(), "nothing is left to give back");
    // The charge of the lease will be in the bucket of the hold, which ends before.
    let lease = Lease::new(cost(1), Duration::from_millis(1));
    let leased = at(&store, 1).lease(&policy, &alice, &lease).await.expect("redis answers");
    assert_eq!((leased.granted, leased.decision.used()), (1, 1));
    assert!(leased.decision.reset_after() > Duration::from_millis(8), "{leased:?}");
}

#[tokio::test]
async fn a_repeated_denial_reads_no_reservation_until_something_changes() {
    let server = Server::start();
    let store = store_of(&server).await;
    let mut wire = server.wire();
    let mut reads = || {
        let stats = wire.command(["INFO", "commandstats"]).as_str_lossy().into_owned();
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_hget:calls=")).expect("it was called");
        line.split(',').next().and_then(|calls| calls.parse::<u64>().ok()).expect("a number")
    };
    for algorithm in ALGORITHMS {
        let policy = policy("repeated", &["300/1h"]).with_algorithm(algorithm);
        let alice = key(&format!("{algorithm:?}"));
        // They end one after the other, before the window does. A debt has hardly drained by then.
        for i in 0..100 {
            let held = reserve(&at(&store, i), &policy, &alice, 3, Duration::from_millis(100 + i)).await;
            assert!(held.id.is_some(), "{algorithm:?}");
        }
        let mut denial = async |micros: u64, units: u64| {
            let before = reads();
            let denied = at(&store, micros).check(&policy, &alice, cost(units)).await.expect("redis answers");
            assert_eq!(denied.reason(), Reason::Limited, "{algorithm:?}");
            (denied.retry_after().expect("it fits later") + Duration::from_micros(micros), reads() - before)
        };
        let (fits_at, searched) = denial(100, 150).await;
        let (again, read) = denial(700, 150).await;
        assert_eq!(again, fits_at, "{algorithm:?}");
        assert!(searched > read && read == 1, "{algorithm:?}: {searched} reads, then {read}");
        let (sooner, searched) = denial(800, 30).await;
        assert!(sooner < fits_at && searched > 1, "{algorithm:?}: another number of units");
        let one_more = at(&store, 900).charge(&policy, &alice, cost(3)).await.expect("redis answers");
        assert_eq!(one_more.used(), 303, "{algorithm:?}");
        let (later, _) = denial(1000, 30).await;
        assert!(later > sooner, "{algorithm:?}: a charge changes the wait");
    }
}

#[tokio::test]
async fn requests_of_one_batch_on_keys_with_holds_see_each_other() {
    let server = Server::start();
    let store = store_of(&server).await;
    let buckets = Algorithm::SlidingBuckets(Buckets::new(10).expect("in range"));
    let mut now = 0;
    for algorithm in ALGORITHMS.into_iter().chain([buckets]) {
        let memory = MemoryStore::default();
        let here = |micros: u64| Timestamp::from_micros(START + micros);
        // Both have the same name, so they share the states of a key.
        let (policy, other) = (policy("batch", &["40/1s"]), policy("batch", &["40/1s"]));
        let (policy, other) = (policy.with_algorithm(algorithm), other.with_algorithm(Algorithm::SlidingCounter));
        let keys = ["alice", "bob"].map(|name| key(&format!("{name} {algorithm:?}")));
        for (i, ttl) in (0..).zip([300, 700, 5000, 900, 40]) {
            let (key, hold) = (&keys[i % 2], Hold::new(Duration::from_millis(ttl)));
            let granted = at(&store, now).reserve(&policy, key, cost(5), hold).await.expect("redis answers");
            let expected = memory.reserve(&policy, key, cost(5), hold, here(now)).expect("well-formed");
            assert_eq!(granted.decision, expected.decision, "{algorithm:?}");
        }
        for round in 0..20 {
            let requests = (0..60).map(|i: u64| {
                let op =
                    [Op::Check, Op::Check, Op::Peek, Op::Check, Op::Charge][usize::try_from(i % 5).expect("small")];
                let units = [1, 30, 20, 38, 1][usize::try_from((i + round) % 5).expect("small")];
                let policy = if round > 15 && i % 11 == 10 { &other } else { &policy };
                (now + i * 700, op, policy, &keys[usize::try_from(i / 2 % 2).expect("small")], cost(units))
            });
            let requests: Vec<_> = requests.collect();
            let decide = requests.iter().map(async |(micros, op, policy, key, cost)| {
                at(&store, *micros).decide(*op, policy, key, *cost).await.expect("redis answers")
            });
            let decided = join_all(decide).await;
            for ((micros, op, policy, key, cost), decision) in requests.into_iter().zip(decided) {
                let expected = memory.decide(op, policy, key, cost, here(micros));
                assert_eq!(decision, expected, "{algorithm:?}, round {round}: {op:?} of {cost:?} at {micros}");
            }
            now += 60 * 700;
        }
    }
}
