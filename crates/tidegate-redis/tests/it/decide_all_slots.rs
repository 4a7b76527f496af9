//! One decision over keys in different slots of a cluster.

use std::time::Duration;

use tidegate::{Cost, Key, OnStoreFailure, Op, Policy, Reason, Spend, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::{Cluster, wait_for};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn charges_of_other_slots_are_refunded_if_one_slot_denies() {
    let cluster = Cluster::start(3, 0);
    let store = RedisStore::builder(&cluster.url()).timeout(Duration::from_secs(10)).connect().expect("a store");
    store.ready().await;
    let policy = |name: &str, limit: &str| Policy::new(name, [limit.parse().expect("a limit")]).expect("a policy");
    let (wide, narrow) = (policy("wide", "1000/1h"), policy("narrow", "3/1h"));
    let users: Vec<_> = (0..20).map(|i| Key::new(&format!("user-{i}")).expect("a key").into_owned()).collect();
    let tenant = Key::new("tenant").expect("a key");
    let slots = users.iter().map(|user| cluster.key_slot(store.key_name(&wide, user)));
    let nodes: std::collections::BTreeSet<_> = slots.map(|slot| cluster.master_of_slot(slot)).collect();
    assert_eq!(nodes.len(), 3, "the users are at all nodes");

    for round in 1..=5 {
        let mut spends: Vec<_> =
            users.iter().map(|key| Spend { policy: &wide, key, cost: Cost::new(7).expect("in range") }).collect();
        spends.push(Spend { policy: &narrow, key: &tenant, cost: Cost::ONE });
        let decisions = store.check_all(&spends).await.expect("well-formed");
        let admitted = round.min(3);
        assert_eq!(decisions.overall.is_allowed(), round <= 3);
        assert!(!decisions.overall.is_degraded());
        for part in &decisions.parts[..20] {
            assert_eq!((part.reason(), part.charged_at().is_some()), (Reason::Allowed, round <= 3));
            assert_eq!(part.used(), 7 * admitted);
            assert_eq!(part.remaining(), 1000 - 7 * admitted);
        }
        if round > 3 {
            assert_eq!((decisions.overall.reason(), decisions.overall.part()), (Reason::Limited, 20));
        }
        for user in &users {
            let shown = store.inspect(&wide, user).await.expect("redis answers").expect("a state");
            assert_eq!(shown.limits[0].used, 7 * admitted, "charged and given back");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_failure_choice_decides_for_a_slot_that_does_not_answer() {
    let cluster = Cluster::start_with(3, 0, &[("cluster-require-full-coverage", "no")]);
    let store = RedisStore::builder(&cluster.url()).timeout(Duration::from_secs(10)).connect().expect("a store");
    store.ready().await;
    let policy = Policy::new("p", ["1000/1h".parse().expect("a limit")]).expect("a policy");
    let node = |key: &Key<'_>| cluster.master_of_slot(cluster.key_slot(store.key_name(&policy, key)));
    let keys: Vec<_> = (0..50).map(|i| Key::new(&format!("user-{i}")).expect("a key").into_owned()).collect();
    let dead = keys.iter().find(|key| node(key) == 0).expect("a key at the first node");
    let alive = keys.iter().find(|key| node(key) == 1).expect("a key at the second node");
    cluster.nodes()[0].kill();
    for (choice, charged) in [(OnStoreFailure::Closed, 0), (OnStoreFailure::Open, 1), (OnStoreFailure::Closed, 1)] {
        let policy = policy.clone().with_on_store_failure(choice);
        let spends = [alive, dead].map(|key| Spend { policy: &policy, key, cost: Cost::ONE });
        let decisions = store.decide_all(Op::Check, &spends).await.expect("well-formed");
        assert_eq!(decisions.overall.is_allowed(), choice == OnStoreFailure::Open, "{choice:?}");
        assert!(decisions.overall.is_degraded());
        let shown = store.inspect(&policy, alive).await.expect("redis answers");
        let used = shown.map_or(0, |shown| shown.limits[0].used);
        assert_eq!(
            used, charged,
            "a denied decision charges nothing, an admitted one charges the slots that answer: {choice:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_for_a_slot_without_a_node_is_reported() {
    let cluster = Cluster::start_with(3, 0, &[("cluster-require-full-coverage", "no")]);
    let policy = Policy::new("p", ["1000/1h".parse().expect("a limit")]).expect("a policy");
    let key = Key::new("somebody").expect("a key");
    let connect = || RedisStore::builder(&cluster.url()).timeout(Duration::from_secs(10)).connect().expect("a store");
    let slot = cluster.key_slot(connect().key_name(&policy, &key));
    let owner = cluster.master_of_slot(slot);
    let unassign = |node: usize| cluster.nodes()[node].wire().command(["CLUSTER", "DELSLOTS", &slot.to_string()]);
    unassign(owner).expect_ok();
    // A message under way may tell the other nodes the old owner again.
    wait_for("the slot to have no node", Duration::from_secs(30), || {
        let refused = (0..3).filter(|node| unassign(*node).is_error()).count();
        if refused == 3 { Ok(()) } else { Err(format!("{} nodes still knew one", 3 - refused)) }
    });
    let store = connect();
    store.ready().await;
    assert!(store.check(&policy, &key, Cost::ONE).await.expect("a decision").is_degraded());
    let found = store.degradations();
    let down = found.iter().find(|one| one.cause == "cluster_down").expect("it is reported");
    assert!(down.detail.contains(&slot.to_string()), "{down:?}");
}

#[tokio::test]
async fn a_cluster_node_is_not_used_as_a_standalone_server() {
    let cluster = Cluster::start(3, 0);
    let url = cluster.nodes()[0].url();
    let store = RedisStore::builder(&url).timeout(Duration::from_secs(10)).connect().expect("a store");
    store.ready().await;
    let policy = Policy::new("p", ["1000/1h".parse().expect("a limit")]).expect("a policy");
    let (mut here, mut refused) = (0, 0);
    for i in 0..50 {
        let name = format!("user-{i}");
        match store.inspect(&policy, &Key::new(&name).expect("a key")).await {
            Ok(_) => here += 1,
            Err(error) => {
                assert!(error.to_string().contains("MOVED"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(here > 0 && refused > 0, "{here} slots are here, {refused} elsewhere, to the last");
}
