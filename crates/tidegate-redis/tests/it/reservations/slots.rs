//! One reservation of several requests, on one server and over several slots of a cluster.

use std::time::Duration;

use tidegate::{
    Hold, Key, Mode, OnStoreFailure, Override, Policy, Reason, ReservationError, ReservationId, Share, Spend,
    Store as _, StoreError,
};
use tidegate_redis::{BreakerState, RedisStore};
use tidegate_testbed::{Cluster, Server};

use super::{TIMEOUT, cost, key, policy, store_of, used};

const MINUTE: Duration = Duration::from_secs(60);

fn users() -> Vec<Key<'static>> {
    (0..12).map(|i| key(&format!("user-{i}"))).collect()
}

fn spends<'a>(policy: &'a Policy, users: &'a [Key<'static>]) -> Vec<Spend<'a>> {
    users.iter().map(|key| Spend { policy, key, cost: cost(7) }).collect()
}

async fn all_used(store: &RedisStore, policy: &Policy, users: &[Key<'_>]) -> Vec<u64> {
    let mut all = Vec::new();
    for user in users {
        all.push(used(store, policy, user).await);
    }
    all
}

async fn reserve_and_settle_as_one(store: &RedisStore) {
    let (wide, narrow) = (policy("wide", &["1000/1h", "100/inflight"]), policy("narrow", &["3/1h"]));
    let policies = vec![wide.clone(), narrow.clone()];
    let (users, tenant) = (users(), key("tenant"));
    let mut requests = spends(&wide, &users);
    requests.push(Spend { policy: &narrow, key: &tenant, cost: cost(2) });
    // The same policy and key again.
    requests.push(Spend { policy: &wide, key: &users[3], cost: cost(1) });
    let minute = Hold::new(MINUTE);
    let held = store.reserve_all(&requests, minute).await.expect("well-formed");
    assert_eq!(held.decisions.overall.reason(), Reason::Allowed);
    let id = held.id.expect("it fits").to_string().parse().expect("an id");
    let mut expected = vec![7; 12];
    expected[3] = 8;
    assert_eq!(all_used(store, &wide, &users).await, expected);

    // The tenant has no room for another one, so nothing is held.
    let denied = store.reserve_all(&requests, minute).await.expect("well-formed");
    assert_eq!((denied.decisions.overall.reason(), denied.id), (Reason::Limited, None));
    assert_eq!(denied.decisions.overall.part(), 12);
    assert_eq!(all_used(store, &wide, &users).await, expected, "given back");
    for user in &users {
        let shown = store.inspect(&wide, user).await.expect("redis answers").expect("a state");
        assert_eq!(shown.reservations.len(), 1, "only the first hold is open");
    }

    let renewed = store.renew(&id, 2 * MINUTE, &policies).await.expect("redis answers");
    assert!(renewed.known);
    let wrong = store.commit(&id, &[1, 2], &policies).await.expect_err("malformed");
    assert_eq!(wrong, StoreError::Reservation(ReservationError::Amounts { given: 2, parts: 14 }));
    let mut actual: Vec<u64> = (0..14).collect();
    actual[12] = 3;
    let settled = store.commit(&id, &actual, &policies).await.expect("redis answers");
    assert!(settled.known);
    let mut expected: Vec<u64> = (0..12).collect();
    expected[3] += 13;
    assert_eq!(all_used(store, &wide, &users).await, expected);
    assert_eq!(used(store, &narrow, &tenant).await, 3, "one more than was held");
    for late in [&[0][..], &actual] {
        let again = store.commit(&id, late, &policies).await.expect("redis answers");
        assert!(!again.known, "{late:?}");
    }
    assert_eq!(all_used(store, &wide, &users).await, expected);
}

#[tokio::test]
async fn a_late_commit_with_several_amounts_is_not_known() {
    let server = Server::start();
    let store = store_of(&server).await;
    let (policy, alice, bob) = (policy("api", &["10/1h"]), key("alice"), key("bob"));
    let spends = [&alice, &bob].map(|key| Spend { policy: &policy, key, cost: cost(4) });
    let held = store.reserve_all(&spends, Hold::new(MINUTE)).await.expect("well-formed");
    let id = held.id.expect("it fits");
    assert!(store.commit(&id, &[1, 2], &policy).await.expect("redis answers").known);
    let late = store.commit(&id, &[3, 4], &policy).await.expect("redis answers");
    assert!(!late.known);
    assert_eq!([used(&store, &policy, &alice).await, used(&store, &policy, &bob).await], [1, 2]);
    let never = ReservationId::never_granted(&policy, [7; 16]);
    assert!(!store.commit(&never, &[1, 2, 3], &policy).await.expect("redis answers").known);
    // The number of requests of an open hold is known.
    let one =
        store.reserve(&policy, &alice, cost(4), Hold::new(MINUTE)).await.expect("well-formed").id.expect("it fits");
    let wrong = store.commit(&one, &[1, 2], &policy).await.expect_err("malformed");
    assert_eq!(wrong, StoreError::Reservation(ReservationError::Amounts { given: 2, parts: 1 }));
}

#[tokio::test]
async fn the_id_finds_all_requests_if_the_first_one_is_not_recorded() {
    let server = Server::start();
    let store = store_of(&server).await;
    let (shadow, exempt) = (policy("shadow", &["1/1h"]).with_mode(Mode::Shadow), policy("exempt", &["10/1h"]));
    let (real, alice, bob) = (policy("real", &["10/1h"]), key("alice"), key("bob"));
    store.set_override(&exempt, &alice, Override::exempt()).await.expect("redis answers");
    for first in [&shadow, &exempt] {
        let spends = [(first, &alice), (&real, &alice), (&real, &bob)];
        let spends = spends.map(|(policy, key)| Spend { policy, key, cost: cost(5) });
        let held = store.reserve_all(&spends, Hold::new(MINUTE)).await.expect("well-formed");
        let id = held.id.expect("it fits");
        let in_use = async || [used(&store, &real, &alice).await, used(&store, &real, &bob).await];
        assert_eq!(in_use().await, [5, 5]);
        let policies = vec![first.clone(), real.clone()];
        assert!(store.renew(&id, 2 * MINUTE, &policies).await.expect("redis answers").known);
        assert!(store.commit(&id, &[7, 1, 2], &policies).await.expect("redis answers").known);
        assert_eq!(in_use().await, [1, 2]);
        assert_eq!(used(&store, first, &alice).await, 0, "it was never recorded");
        for key in [&alice, &bob] {
            store.reset(&real, key).await.expect("redis answers");
        }
    }
}

#[tokio::test]
async fn a_policy_that_is_gone_does_not_keep_the_other_requests_open() {
    let server = Server::start();
    let store = store_of(&server).await;
    let all = ["first", "second", "third"].map(|name| policy(name, &["10/1h"]));
    // The id names the policy of the first request.
    for gone in 0..3 {
        let user = key(&format!("user {gone}"));
        let spends: Vec<_> = all.iter().map(|policy| Spend { policy, key: &user, cost: cost(5) }).collect();
        let held = store.reserve_all(&spends, Hold::new(MINUTE)).await.expect("well-formed");
        let id = held.id.expect("it fits");
        let mut policies = all.to_vec();
        policies.remove(gone);
        assert!(store.renew(&id, 2 * MINUTE, &policies).await.expect("redis answers").known);
        let wrong = store.commit(&id, &[1, 2], &policies).await.expect_err("malformed");
        assert_eq!(wrong, StoreError::Reservation(ReservationError::Amounts { given: 2, parts: 3 }));
        assert!(store.commit(&id, &[1, 2, 3], &policies).await.expect("redis answers").known);
        let mut in_use = Vec::new();
        for Spend { policy, key, .. } in spends {
            in_use.push(used(&store, policy, key).await);
        }
        let mut expected = vec![1, 2, 3];
        expected[gone] = 5;
        assert_eq!(in_use, expected, "request {gone} ends by itself");
        let none = store.commit(&id, &[0], &Vec::new()).await.expect_err("all are gone");
        assert!(matches!(none, StoreError::Reservation(ReservationError::PolicyGone { .. })), "{none:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_requests_on_one_server_are_reserved_and_settled_as_one() {
    let server = Server::start();
    reserve_and_settle_as_one(&store_of(&server).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_requests_in_several_slots_are_reserved_and_settled_as_one() {
    let cluster = Cluster::start(3, 0);
    let store = RedisStore::builder(&cluster.url()).timeout(TIMEOUT).connect().expect("a store");
    store.ready().await;
    let wide = policy("wide", &["1000/1h"]);
    let slots = users().into_iter().map(|user| cluster.key_slot(store.key_name(&wide, &user)));
    let nodes: std::collections::BTreeSet<_> = slots.map(|slot| cluster.master_of_slot(slot)).collect();
    assert!(nodes.len() > 1, "the users are at several nodes");
    reserve_and_settle_as_one(&store).await;
}

/// Reserves 6 of 10 units of each user, then settles them, while Redis answers for some users or for none.
async fn settle_a_reservation_with_local_holds(store: &RedisStore, policy: &Policy, users: &[Key<'static>]) {
    let spends: Vec<Spend<'_>> = users.iter().map(|key| Spend { policy, key, cost: cost(6) }).collect();
    let reserve = async || store.reserve_all(&spends, Hold::new(MINUTE)).await.expect("well-formed");
    let held = reserve().await;
    assert!(held.decisions.overall.is_allowed() && held.decisions.overall.is_degraded(), "{:?}", held.decisions);
    let denied = reserve().await;
    assert_eq!((denied.decisions.overall.is_allowed(), denied.id), (false, None));
    let id = held.id.expect("it fits").to_string().parse().expect("an id");
    let amounts: Vec<u64> = (0..4).cycle().take(users.len()).collect();
    assert!(store.commit(&id, &amounts, policy).await.expect("it answers for its parts").known);
    assert!(!store.commit(&id, &amounts, policy).await.is_ok_and(|settled| settled.known), "it was settled once");
    let again = reserve().await;
    let in_use: Vec<u64> = again.decisions.parts.iter().map(tidegate::Decision::used).collect();
    let expected: Vec<u64> = amounts.iter().map(|amount| amount + 6).collect();
    assert_eq!(in_use, expected, "each request got its own amount");
    let id = again.id.expect("it fits");
    assert!(store.renew(&id, 2 * MINUTE, policy).await.expect("it answers for its parts").known);
    assert!(store.commit(&id, &[0], policy).await.expect("it answers for its parts").known);
    assert!(reserve().await.decisions.overall.is_allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_that_falls_back_is_settled_in_this_process() {
    let policy = policy("api", &["10/1h"]).with_on_store_failure(OnStoreFailure::Local(Share::ALL));
    let server = Server::start();
    let store = RedisStore::connect(&server.url()).expect("a store");
    store.ready().await;
    server.stop();
    while store.breakers().iter().any(|(_, state)| *state == BreakerState::Closed) {
        let _ = store.peek(&policy, &key("somebody"), cost(1)).await;
    }
    settle_a_reservation_with_local_holds(&store, &policy, &users()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_that_falls_back_for_some_slots_is_settled_in_redis_and_in_this_process() {
    let policy = policy("api", &["10/1h"]).with_on_store_failure(OnStoreFailure::Local(Share::ALL));
    let cluster = Cluster::start(3, 0);
    let store = RedisStore::builder(&cluster.url()).timeout(Duration::from_secs(2)).connect().expect("a store");
    store.ready().await;
    let node_of = |user: &Key<'static>| cluster.master_of_slot(cluster.key_slot(store.key_name(&policy, user)));
    let secret = cluster.master_of_slot(cluster.key_slot("tg:{~reservations}/secret"));
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for user in users() {
        if node_of(&user) == secret { near.push(user) } else { far.push(user) }
    }
    assert!(!near.is_empty() && !far.is_empty());
    // The secret is read before.
    let _ = store.reserve(&policy, &near[0], cost(1), Hold::new(Duration::from_millis(1))).await.expect("well-formed");
    let lost = node_of(&far[0]);
    far.retain(|user| node_of(user) == lost);
    cluster.nodes()[lost].stop();
    let users = vec![far[0].clone(), near[0].clone(), far[far.len() - 1].clone(), near[near.len() - 1].clone()];
    settle_a_reservation_with_local_holds(&store, &policy, &users).await;
}
