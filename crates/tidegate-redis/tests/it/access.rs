//! Ways in: a password, an ACL user with no more rights than are needed, TLS.

use std::time::Duration;

use tidegate::{Algorithm, Cost, Key, Override, Policy, Reason};
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

/// What an ACL user needs, as the documentation says.
pub(crate) const RIGHTS: &str = "resetchannels ~tg:* -@all +evalsha +script|load +time +get +mget +set +setrange +append +hget +hset +hdel +hkeys \
                                 +hlen +hscan +del +exists +pexpire +persist +info";

async fn decides(store: &RedisStore) {
    tokio::time::timeout(Duration::from_secs(20), store.ready()).await.expect("it connects");
    let key = Key::new("somebody").expect("a key");
    for algorithm in [Algorithm::SlidingLog, Algorithm::SlidingCounter, Algorithm::Gcra(None)] {
        let policy = Policy::new("p", ["2/1h".parse().expect("a limit")]).expect("a policy").with_algorithm(algorithm);
        let decision = store.check(&policy, &key, Cost::ONE).await;
        assert_eq!((decision.reason(), decision.is_degraded()), (Reason::Allowed, false), "{algorithm:?}");
        for by in [Override::ban(), Override::limits(policy.clone())] {
            store.set_override(&policy, &key, &by).await.expect("redis answers");
            assert!(store.check(&policy, &key, Cost::ONE).await.is_overridden());
            assert_eq!(store.overrides(&policy).await.expect("redis answers").len(), 1);
        }
        store.lift_override(&policy, &key).await.expect("redis answers");
        assert!(store.reset(&policy, &key).await.expect("redis answers"));
    }
}

fn patient(url: &str) -> tidegate_redis::RedisStoreBuilder {
    RedisStore::builder(url).timeout(Duration::from_secs(10)).connect_timeout(Duration::from_secs(10))
}

#[tokio::test]
async fn a_password_lets_in() {
    let server = Server::builder().password("secret").start();
    decides(&patient(&server.url()).connect().expect("a store")).await;
}

#[tokio::test]
async fn a_user_with_no_more_rights_than_documented_lacks_none() {
    let server = Server::builder().acl_user("limiter", "p4ss", RIGHTS).start();
    decides(&patient(&server.url_as("limiter", "p4ss")).connect().expect("a store")).await;
    let denied = server.wire().command(["ACL", "LOG"]);
    assert!(denied.array().is_empty(), "{denied:?}");
}

#[tokio::test]
async fn a_certificate_authority_of_ones_own_is_trusted() {
    let server = Server::builder().tls().start();
    let ca = std::fs::read(server.ca_pem()).expect("a certificate");
    decides(&patient(&server.url()).tls_ca(ca).connect().expect("a store")).await;
}

#[tokio::test]
async fn a_wrong_password_is_an_outage_and_the_policy_answers() {
    let server = Server::builder().password("secret").start();
    let url = server.url().replace("secret", "wrong");
    let store = RedisStore::builder(&url).timeout(Duration::from_secs(10)).connect().expect("a store");
    let policy = Policy::new("p", ["2/1h".parse().expect("a limit")]).expect("a policy");
    let decision = store.check(&policy, &Key::new("somebody").expect("a key"), Cost::ONE).await;
    assert_eq!((decision.reason(), decision.is_degraded()), (Reason::Allowed, true));
}
