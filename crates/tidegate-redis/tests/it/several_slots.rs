//! One decision over keys in different slots of a cluster.

use std::time::Duration;

use tidegate::{Cost, Key, Policy, Reason, Spend};
use tidegate_redis::RedisStore;
use tidegate_testbed::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_slot_denies_is_given_back_in_the_others() {
    let cluster = Cluster::start(3, 0);
    let store = RedisStore::builder(&cluster.url()).timeout(Duration::from_secs(10)).connect().expect("a store");
    store.ready().await;
    let policy = |name: &str, limit: &str| Policy::new(name, [limit.parse().expect("a limit")]).expect("a policy");
    let (wide, narrow) = (policy("wide", "1000/1h"), policy("narrow", "3/1h"));
    let users: Vec<_> = (0..20).map(|i| Key::new(&format!("user-{i}")).expect("a key").into_owned()).collect();
    let tenant = Key::new("tenant").expect("a key");
    let slots = users.iter().map(|user| cluster.key_slot(&store.key_name(&wide, user)));
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
