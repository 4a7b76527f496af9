//! Every degraded state is reported with its cause, and ends.

use std::{
    fmt::Write as _,
    sync::{Mutex, OnceLock},
    time::Duration,
};

use tidegate::{Cost, Decision, Degradation, Key, Policy, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::{Server, wait_for};

const PATIENCE: Duration = Duration::from_secs(30);

async fn store_with_long_timeout(url: &str) -> RedisStore {
    let store = RedisStore::builder(url).timeout(Duration::from_secs(20)).connect().expect("a store");
    store.ready().await;
    store
}

fn policy() -> Policy {
    Policy::new("api", ["100/1h".parse().expect("a limit")]).expect("a policy")
}

async fn decide_one(store: &RedisStore, name: &str) -> Decision {
    store.check(&policy(), &Key::new(name).expect("a key"), Cost::ONE).await.expect("a decision")
}

fn causes(store: &RedisStore) -> Vec<&'static str> {
    store.degradations().iter().map(|one| one.cause).collect()
}

/// The reported state of a cause.
#[track_caller]
fn reported(store: &RedisStore, cause: &str) -> Degradation {
    let found = store.degradations().into_iter().find(|one| one.cause == cause);
    found.unwrap_or_else(|| panic!("{cause} is not reported, only {:?}", store.degradations()))
}

/// Sends requests until a state has ended.
async fn wait_until_ended(store: &RedisStore, cause: &str) {
    for _ in 0..30_000 {
        let _ = decide_one(store, "recovered").await;
        if !causes(store).contains(&cause) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{cause} does not end: {:?}", store.degradations());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_error_of_redis_is_a_degraded_state_with_its_cause_and_cure() {
    let server = Server::start();
    let store = store_with_long_timeout(&server.url()).await;
    assert!(!decide_one(&store, "a").await.is_degraded());
    assert_eq!(causes(&store), Vec::<&str>::new());
    let mut wire = server.wire();

    wire.command(["CONFIG", "SET", "maxmemory", "1"]).expect_ok();
    assert!(decide_one(&store, "a").await.is_degraded());
    assert!(reported(&store, "out_of_memory").cure.contains("maxmemory"));
    wire.command(["CONFIG", "SET", "maxmemory", "0"]).expect_ok();

    wire.command(["CONFIG", "SET", "min-replicas-to-write", "1"]).expect_ok();
    assert!(decide_one(&store, "a").await.is_degraded());
    assert!(reported(&store, "no_replicas").cure.contains("min-replicas-to-write"));
    wire.command(["CONFIG", "SET", "min-replicas-to-write", "0"]).expect_ok();

    wire.command(["ACL", "SETUSER", "default", "-set", "-setrange", "-append"]).expect_ok();
    assert!(decide_one(&store, "a").await.is_degraded());
    assert!(reported(&store, "no_permission").cure.contains("ACL"));
    wire.command(["ACL", "SETUSER", "default", "+@all"]).expect_ok();

    let theirs = store.key_name(&policy(), &Key::new("theirs").expect("a key"));
    wire.command([b"LPUSH".to_vec(), theirs, b"x".to_vec()]).integer();
    assert!(decide_one(&store, "theirs").await.is_degraded());
    let wrong = reported(&store, "wrong_type");
    assert!(
        wrong.cure.contains("store.prefix")
            && wrong.node.as_ref().is_some_and(|node| node.contains(&server.port().to_string())),
        "{wrong:?}"
    );

    let stats = store.stats();
    for cause in ["out_of_memory", "no_replicas", "no_permission", "wrong_type"] {
        assert_eq!(stats.errors.get(cause), Some(&1), "{stats:?}");
        wait_until_ended(&store, cause).await;
    }
    assert!(!decide_one(&store, "a").await.is_degraded());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_login_is_a_degraded_state_of_its_own() {
    let server = Server::builder().password("secret").start();
    let store = RedisStore::connect(&server.url().replace("secret", "wrong")).expect("a store");
    wait_for("the login to be refused", PATIENCE, || {
        causes(&store).contains(&"login_refused").then_some(()).ok_or_else(|| format!("{:?}", store.degradations()))
    });
    assert!(reported(&store, "login_refused").cure.contains("store.url"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_change_of_the_eviction_policy_is_noticed() {
    let server = Server::builder().arg("maxmemory", "100mb").start();
    let store = store_with_long_timeout(&server.url()).await;
    assert!(!store.stats().may_evict);
    let mut wire = server.wire();
    for (policy, may_evict) in [("allkeys-lru", true), ("noeviction", false), ("volatile-ttl", true)] {
        wire.command(["CONFIG", "SET", "maxmemory-policy", policy]).expect_ok();
        for _ in 0..30_000 {
            let _ = decide_one(&store, "a").await;
            if store.stats().may_evict == may_evict {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(store.stats().may_evict, may_evict, "{policy}");
        assert_eq!(causes(&store).contains(&"may_evict"), may_evict, "{policy}");
    }
}

/// Collects log lines, and panics with every line, like a logger whose stderr is closed.
struct Panicking(Mutex<Vec<String>>);

impl tracing::Subscriber for &'static Panicking {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("tidegate_redis")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields(String);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                let _ = write!(self.0, "{field}={value:?} ");
            }
        }
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().expect("no panic while it is locked").push(fields.0);
        panic!("the log can't be written");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_state_is_logged_and_a_panicking_logger_ends_no_task() {
    static LOG: OnceLock<Panicking> = OnceLock::new();
    let log = LOG.get_or_init(|| Panicking(Mutex::new(Vec::new())));
    tracing::subscriber::set_global_default(log).expect("no other test sets one");
    let server = Server::start();
    let port = server.port().to_string();
    let store =
        RedisStore::builder(&server.url()).probe_interval(Duration::from_millis(20)).connect().expect("a store");
    store.ready().await;
    for _ in 0..2 {
        server.kill();
        let lines = |of: &str, cause: &str| {
            let log = log.0.lock().expect("no panic while it is locked");
            let cause = format!("cause=\"{cause}\"");
            log.iter().filter(|line| line.contains(&port) && line.contains(of) && line.contains(&cause)).count()
        };
        let before = (lines("is degraded", "unreachable"), lines("has ended", "unreachable"));
        while lines("is degraded", "unreachable") == before.0 {
            let _ = decide_one(&store, "a").await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.restart();
        tokio::time::timeout(PATIENCE, store.ready()).await.expect("the task goes on and finds the server");
        wait_for("the end of the outage to be logged", PATIENCE, || {
            if lines("has ended", "unreachable") > before.1 {
                Ok(())
            } else {
                Err(format!("only {:?} is", log.0.lock()))
            }
        });
    }
    let logged = log.0.lock().expect("no panic while it is locked");
    let line = logged.iter().find(|line| line.contains(&port) && line.contains("is degraded")).expect("logged");
    assert!(line.contains("cure=") && line.contains("detail="), "{line}");
}
