//! Reservations while Redis does not answer, refuses, or answers and the reply is lost.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use futures_util::future::join_all;
use tidegate::{Hold, HoldGuard, OnStoreFailure, Reason, Share, Spend, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::{Proxy, Reply, Server, Wire};

use super::{START, at, commit, cost, key, policy, reserve, store_of, used};

const MINUTE: Duration = Duration::from_secs(60);

/// Forwards connections to a server. When it is armed, it closes the connection in place of the next reply.
struct ReplyLoser {
    url: String,
    armed: Arc<AtomicBool>,
}

impl ReplyLoser {
    fn start(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("redis://{}", listener.local_addr().expect("an address"));
        let (armed, target) = (Arc::new(AtomicBool::new(false)), server.addr());
        let is_armed = Arc::clone(&armed);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&target)) else { return };
                let (to_server, to_client) =
                    (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
                let armed = Arc::clone(&is_armed);
                thread::spawn(move || forward(client, to_server, || false));
                thread::spawn(move || forward(server, to_client, || armed.swap(false, SeqCst)));
            }
        });
        Self { url, armed }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, loses: impl Fn() -> bool) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if loses() || to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_whose_reply_is_lost_ends_by_itself() {
    let server = Server::start();
    let loser = ReplyLoser::start(&server);
    let builder = RedisStore::builder(&loser.url).timeout(MINUTE).without_health_checks();
    let (store, direct) = (builder.connect().expect("a store"), store_of(&server).await);
    store.ready().await;
    let (policy, alice) = (policy("jobs", &["10/1h", "4/inflight"]), key("alice"));
    // The first reservation reads the secret.
    let first = reserve(&at(&store, 0), &policy, &alice, 1, Duration::from_secs(1)).await;
    assert!(first.id.is_some());
    loser.armed.store(true, SeqCst);
    let lost = at(&store, 1).reserve(&policy, &alice, cost(3), Hold::new(Duration::from_secs(10))).await;
    assert_eq!(lost.expect_err("the reply is lost").cause(), "lost");

    let shown = at(&direct, 2).inspect(&policy, &alice).await.expect("redis answers").expect("a state");
    assert_eq!(shown.reservations.len(), 2, "it was granted, and was not sent again");
    assert_eq!(shown.reservations[1].until.as_micros(), START + 10_000_001);
    assert_eq!(used(&at(&direct, 10_000_000), &policy, &alice).await, 3, "the first one has ended");
    let after = reserve(&at(&direct, 10_000_001), &policy, &alice, 4, Duration::from_secs(1)).await;
    assert_eq!((after.decision.reason(), after.decision.used()), (Reason::Allowed, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_reply_is_lost_is_an_error_and_is_settled_once() {
    let server = Server::start();
    let loser = ReplyLoser::start(&server);
    let store = RedisStore::builder(&loser.url).timeout(MINUTE).without_health_checks().connect().expect("a store");
    store.ready().await;
    let (policy, alice) = (policy("jobs", &["10/1h"]), key("alice"));
    let id = reserve(&at(&store, 0), &policy, &alice, 4, Duration::from_secs(10)).await.id.expect("it fits");
    loser.armed.store(true, SeqCst);
    let lost = at(&store, 1).commit(&id, &[6], &policy).await;
    assert_eq!(lost.expect_err("the reply is lost").cause(), "lost");
    // It ran, so a caller that repeats it must not charge again because the hold is not open any more.
    let repeated = commit(&at(&store_of(&server).await, 2), &id, 6, &policy).await;
    assert_eq!((repeated.known, repeated.decision.used()), (false, 6));
}

#[tokio::test]
async fn a_reserve_that_runs_late_is_not_granted() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url())
        .timeout(Duration::from_millis(100))
        .without_health_checks()
        .connect()
        .expect("a store");
    store.ready().await;
    let closed = policy("late", &["10/1h"]).with_on_store_failure(OnStoreFailure::Closed);
    let alice = key("alice");
    // The store learns the clock of the server, and the secret.
    let known = loop {
        if let Some(id) = reserve(&store, &closed, &alice, 1, MINUTE).await.id {
            break id;
        }
    };
    server.pause();
    let late = reserve(&store, &closed, &alice, 1, MINUTE).await;
    assert_eq!((late.decision.reason(), late.id), (Reason::StoreUnavailable, None));
    server.resume();
    let direct = store_of(&server).await;
    assert!(commit(&direct, &known, 0, &closed).await.known);
    let shown = direct.inspect(&closed, &alice).await.expect("redis answers").expect("a state");
    assert_eq!((shown.limits[0].used, shown.reservations.len()), (0, 0), "the late request did nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_reserve_takes_at_most_one_timeout() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let builder = RedisStore::builder(&proxy.url()).timeout(Duration::from_secs(1)).without_health_checks();
    let store = builder.connect().expect("a store");
    store.ready().await;
    // The secret is read within the timeout, and the hold would be granted after it.
    proxy.set_delay(Duration::from_millis(600));
    let closed = policy("api", &["10/1h"]).with_on_store_failure(OnStoreFailure::Closed);
    let late = reserve(&store, &closed, &key("alice"), 1, MINUTE).await;
    assert_eq!((late.decision.reason(), late.id), (Reason::StoreUnavailable, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_wait_for_the_secret_share_a_failure_to_read_it() {
    let server = Server::start();
    let builder = RedisStore::builder(&server.url()).timeout(Duration::from_secs(1)).without_health_checks();
    let store = builder.breaker_after(1000).connect().expect("a store");
    store.ready().await;
    let calls = || store.stats().calls;
    let (before, closed) = (calls(), policy("api", &["10/1h"]).with_on_store_failure(OnStoreFailure::Closed));
    server.pause();
    let alice = key("alice");
    let reserved = join_all((0..50).map(|_| reserve(&store, &closed, &alice, 1, MINUTE))).await;
    assert!(reserved.iter().all(|reserved| reserved.decision.reason() == Reason::StoreUnavailable));
    assert_eq!(calls() - before, 1, "one of them asked");
    server.resume();
}

#[tokio::test]
async fn the_failure_choice_decides_on_a_reserve_while_redis_is_away() {
    let server = Server::start();
    let store = RedisStore::connect(&server.url()).expect("a store");
    store.ready().await;
    server.stop();
    let alice = key("alice");
    let with = |choice| policy("api", &["10/1h"]).with_on_store_failure(choice);
    let reserved = async |choice, units| reserve(&store, &with(choice), &alice, units, MINUTE).await;
    // Until the store knows that the server is away.
    while !reserved(OnStoreFailure::Open, 1).await.decision.is_degraded()
        || store.breakers().iter().any(|(_, state)| *state == tidegate_redis::BreakerState::Closed)
    {}
    let open = reserved(OnStoreFailure::Open, 7).await;
    assert!(open.decision.is_allowed() && open.decision.is_degraded());
    let id = open.id.expect("an admitted request has an id");
    let policy = with(OnStoreFailure::Open);
    assert!(!commit(&store, &id, 7, &policy).await.known, "the id is never known");
    let closed = reserved(OnStoreFailure::Closed, 1).await;
    assert_eq!((closed.decision.reason(), closed.id), (Reason::StoreUnavailable, None));

    let local = OnStoreFailure::Local(Share::new(0.5).expect("in range"));
    let policy = with(local);
    let held = reserve(&store, &policy, &key("bob"), 4, MINUTE).await;
    let id = held.id.expect("it fits");
    let denied = reserve(&store, &policy, &key("bob"), 4, MINUTE).await;
    assert_eq!((denied.decision.reason(), denied.id), (Reason::Limited, None), "half of the limit");
    let settled = commit(&store, &id, 1, &policy).await;
    assert_eq!((settled.known, settled.decision.remaining()), (true, 4), "this process settles it");

    // A dropped guard can't release a hold of Redis now: it is counted, and the hold ends by itself.
    server.restart();
    store.ready().await;
    let held = reserve(&store_of(&server).await, &policy, &key("carol"), 4, MINUTE).await.id.expect("it fits");
    server.stop();
    while store.breakers().iter().any(|(_, state)| *state == tidegate_redis::BreakerState::Closed) {
        let _ = store.peek(&policy, &alice, cost(1)).await.expect("a decision");
    }
    store.release_detached(&held, std::slice::from_ref(&policy));
    while store.stats().releases_dropped == 0 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_dropped_guard_releases_its_hold_even_outside_a_runtime() {
    let server = Server::start();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let store = runtime.block_on(store_of(&server));
    let (jobs, tokens) = (policy("jobs", &["4/inflight"]), policy("tokens", &["100/1h", "50/inflight"]));
    let (alice, bob) = (key("alice"), key("bob"));
    let hold = Hold::new(MINUTE);
    let one = runtime.block_on(HoldGuard::reserve(store.clone(), &jobs, &alice, cost(4), hold));
    let spends = [
        Spend { policy: &tokens, key: &alice, cost: cost(7) },
        Spend { policy: &jobs, key: &bob, cost: cost(3) },
        Spend { policy: &tokens, key: &bob, cost: cost(9) },
    ];
    let several = runtime.block_on(HoldGuard::reserve_all(store.clone(), &spends, hold));
    let (one, several) = (one.expect("redis answers").guard, several.expect("redis answers").guard);
    let in_use = || {
        let used = async |policy, key| used(&store, policy, key).await;
        runtime.block_on(async {
            [used(&jobs, &alice).await, used(&tokens, &alice).await, used(&jobs, &bob).await, used(&tokens, &bob).await]
        })
    };
    assert_eq!(in_use(), [4, 7, 3, 9]);
    drop(one.expect("it fits"));
    while in_use() != [0, 7, 3, 9] {}
    drop(several.expect("it fits"));
    while in_use() != [0; 4] {}
    assert_eq!(store.stats().releases_dropped, 0);
}

/// Fills the server's memory until it refuses writes.
fn fill(wire: &mut Wire) {
    for size in [256 * 1024, 16 * 1024, 1024, 64] {
        let value = vec![b'x'; size];
        let push = |wire: &mut Wire| wire.command([b"RPUSH", b"filler".as_slice(), &value]);
        let refused = (0..100_000).find_map(|_| Some(push(wire)).filter(Reply::is_error));
        assert!(refused.expect("memory has an end").error().starts_with("OOM"));
    }
}

#[tokio::test]
async fn open_holds_have_a_decided_outcome_while_redis_is_out_of_memory() {
    let server = Server::builder().arg("maxmemory", "16mb").arg("maxmemory-policy", "noeviction").start();
    let store = store_of(&server).await;
    let (policy, alice) = (policy("api", &["10/1h"]).with_on_store_failure(OnStoreFailure::Closed), key("alice"));
    let id = reserve(&store, &policy, &alice, 4, MINUTE).await.id.expect("it fits");
    let mut wire = server.wire();
    fill(&mut wire);
    let denied = reserve(&store, &policy, &alice, 1, MINUTE).await;
    assert_eq!((denied.decision.reason(), denied.id), (Reason::StoreUnavailable, None));
    let error = store.commit(&id, &[1], &policy).await.expect_err("redis refuses writes");
    assert_eq!(error.cause(), "out_of_memory");
    assert_eq!(used(&store, &policy, &alice).await, 4, "nothing was changed");
    assert_eq!(wire.command(["DEL", "filler"]).integer(), 1);
    // Redis frees memory a little later.
    loop {
        if let Ok(settled) = store.commit(&id, &[1], &policy).await {
            assert_eq!((settled.known, settled.decision.used()), (true, 1));
            break;
        }
    }
}

#[tokio::test]
async fn open_holds_have_a_decided_outcome_on_a_server_that_became_a_replica() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_millis(500)).connect().expect("a store");
    store.ready().await;
    let (policy, alice) = (policy("api", &["10/1h"]).with_on_store_failure(OnStoreFailure::Closed), key("alice"));
    let id = loop {
        if let Some(id) = reserve(&store, &policy, &alice, 4, MINUTE).await.id {
            break id;
        }
    };
    let mut wire = server.wire();
    // Nothing listens on the port of its master, so it keeps its data.
    wire.command(["REPLICAOF", "127.0.0.1", "1"]).expect_ok();
    let denied = reserve(&store, &policy, &alice, 1, MINUTE).await;
    assert_eq!((denied.decision.reason(), denied.id), (Reason::StoreUnavailable, None));
    store.commit(&id, &[1], &policy).await.expect_err("a replica does not write");
    wire.command(["REPLICAOF", "NO", "ONE"]).expect_ok();
    // The store connects to it again. The commit has time: it must not run after its caller has given up.
    while store.inspect(&policy, &alice).await.is_err() {}
    let settled = commit(&store_of(&server).await, &id, 1, &policy).await;
    assert_eq!((settled.known, settled.decision.used()), (true, 1));
}
