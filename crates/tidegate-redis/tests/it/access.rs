//! Access to Redis: a password, an ACL user with minimal permissions, TLS.

use std::time::Duration;

use tidegate::{Algorithm, Cost, Key, Override, Policy, Reason, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

/// The permissions that an ACL user needs, as documented.
pub(crate) const RIGHTS: &str = "resetchannels ~tg:* -@all +evalsha +script|load +time +get +mget +set +setrange +append +hget +hset +hdel +hkeys \
                                 +hlen +hscan +del +exists +pexpire +persist +info";

async fn decides(store: &RedisStore) {
    tokio::time::timeout(Duration::from_secs(20), store.ready()).await.expect("it connects");
    let key = Key::new("somebody").expect("a key");
    for algorithm in [Algorithm::SlidingLog, Algorithm::SlidingCounter, Algorithm::Gcra(None)] {
        let policy = Policy::new("p", ["2/1h".parse().expect("a limit")]).expect("a policy").with_algorithm(algorithm);
        let decision = store.check(&policy, &key, Cost::ONE).await.expect("a decision");
        assert_eq!((decision.reason(), decision.is_degraded()), (Reason::Allowed, false), "{algorithm:?}");
        for by in [Override::ban(), Override::limits(policy.clone())] {
            store.set_override(&policy, &key, by).await.expect("redis answers");
            assert!(store.check(&policy, &key, Cost::ONE).await.expect("a decision").is_overridden());
            assert_eq!(store.overrides(&policy).await.expect("redis answers").len(), 1);
        }
        store.remove_override(&policy, &key).await.expect("redis answers");
        assert!(store.reset(&policy, &key).await.expect("redis answers"));
    }
}

fn store_with_long_timeout(url: &str) -> tidegate_redis::RedisStoreBuilder {
    RedisStore::builder(url).timeout(Duration::from_secs(10)).connect_timeout(Duration::from_secs(10))
}

#[tokio::test]
async fn a_password_logs_in() {
    let server = Server::builder().password("secret").start();
    decides(&store_with_long_timeout(&server.url()).connect().expect("a store")).await;
}

#[tokio::test]
async fn a_user_with_the_documented_permissions_can_do_everything() {
    let server = Server::builder().acl_user("limiter", "p4ss", RIGHTS).start();
    decides(&store_with_long_timeout(&server.url_as("limiter", "p4ss")).connect().expect("a store")).await;
    let denied = server.wire().command(["ACL", "LOG"]);
    assert!(denied.array().is_empty(), "{denied:?}");
}

#[tokio::test]
async fn without_permission_for_info_the_number_of_keys_has_no_maximum_and_that_is_reported() {
    let rights = RIGHTS.replace("+info", "");
    let server = Server::builder().acl_user("limiter", "p4ss", &rights).start();
    let store = store_with_long_timeout(&server.url_as("limiter", "p4ss")).max_keys(5).connect().expect("a store");
    store.ready().await;
    let policy = Policy::new("p", ["2/1h".parse().expect("a limit")]).expect("a policy");
    let check = async |number: u64| {
        let key = Key::new(&format!("user {number}")).expect("a key").into_owned();
        store.check(&policy, &key, Cost::ONE).await.expect("a decision")
    };
    let reported = || store.degradations().into_iter().find(|one| one.cause == "no_permission");
    while reported().is_none() {
        let _ = check(0).await;
    }
    assert!(reported().is_some_and(|one| one.detail.contains("INFO") && one.detail.contains("max_keys")));
    for number in 1..100 {
        let decision = check(number).await;
        assert_eq!((decision.reason(), decision.is_degraded()), (Reason::Allowed, false), "{number}");
    }
    server.wire().command(["ACL", "SETUSER", "limiter", "+info"]).expect_ok();
    while reported().is_some() {
        let _ = check(0).await;
    }
    assert!(check(1000).await.is_degraded(), "the bound applies again");
}

#[tokio::test]
async fn a_custom_certificate_authority_is_trusted() {
    let server = Server::builder().tls().start();
    let ca = std::fs::read(server.ca_pem()).expect("a certificate");
    decides(&store_with_long_timeout(&server.url()).tls_ca(ca).connect().expect("a store")).await;
}

#[tokio::test]
async fn a_wrong_password_is_an_outage_and_the_failure_choice_decides() {
    let server = Server::builder().password("secret").start();
    let url = server.url().replace("secret", "wrong");
    let store = RedisStore::builder(&url).timeout(Duration::from_secs(10)).connect().expect("a store");
    let policy = Policy::new("p", ["2/1h".parse().expect("a limit")]).expect("a policy");
    let decision = store.check(&policy, &Key::new("somebody").expect("a key"), Cost::ONE).await.expect("a decision");
    assert_eq!((decision.reason(), decision.is_degraded()), (Reason::Allowed, true));
}
