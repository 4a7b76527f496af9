//! What a store does and reports while its root does not work.

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tidegate::{Cost, Hold, HoldGuard, Key, MetricKind, OnStoreFailure, ReservationId, Store as _};
use tidegate_remote::RemoteStore;

use crate::{
    bounds::{INFO, policy, server_with},
    root::Root,
};

fn metric(store: &RemoteStore, name: &str) -> u64 {
    let metrics = store.report().metrics;
    let metric = metrics.iter().find(|metric| metric.name == name).expect(name);
    assert!(matches!(metric.kind, MetricKind::Counter), "{metric:?}");
    metric.values[0].1
}

#[test]
fn a_guard_that_is_dropped_outside_a_runtime_releases_its_hold() {
    let root = Root::start();
    let jobs = policy(OnStoreFailure::Closed);
    root.configure(&jobs);
    let alice = Key::from(1_u8);
    let hold = Hold::new(Duration::from_secs(60));
    let reserve = HoldGuard::reserve(root.store.clone(), &jobs, &alice, Cost::new(4).expect("a cost"), hold);
    let reserved = root.runtime.block_on(reserve).expect("an answer");
    let used = || {
        let state = root.runtime.block_on(root.limiter.inspect(&jobs, &alice)).expect("a state");
        state.map_or(0, |state| state.limits[0].used)
    };
    assert_eq!(used(), 4);
    // There is no runtime on this thread.
    drop(reserved);
    while used() != 0 {
        std::thread::yield_now();
    }
    assert_eq!(metric(&root.store, "store_releases_dropped"), 0);
}

#[tokio::test]
async fn releases_beyond_the_bound_are_dropped_and_counted() {
    let url = server_with(INFO, |_| {});
    let timeout = Duration::from_secs(600);
    let store = RemoteStore::builder(&url).max_requests(2).timeout(timeout).connect().expect("a store");
    store.ready().await;
    let jobs = policy(OnStoreFailure::Closed);
    let id = ReservationId::never_granted(&jobs, [1; 16]);
    for dropped in [0, 0, 1, 2] {
        store.release_detached(&id, std::slice::from_ref(&jobs));
        assert_eq!(metric(&store, "store_releases_dropped"), dropped);
    }
}

#[tokio::test]
async fn an_error_of_connecting_is_an_outage_and_no_answer_to_a_request() {
    for (answer, cause, text) in [
        (&b"-ERR max number of clients reached\r\n"[..], "unreachable", "`ERR max number of clients reached`"),
        (b"-LOADING it is loading\r\n", "unreachable", "LOADING"),
        (b"-ERR there is no policy `x`\r\n", "unreachable", "no policy"),
        (b"-NOPERM no permission for INFO\r\n", "login_refused", "no permission for INFO"),
    ] {
        let url = server_with(answer, |_| {});
        let store = RemoteStore::builder(&url).timeout(Duration::from_secs(60)).connect().expect("a store");
        for choice in [OnStoreFailure::Open, OnStoreFailure::Closed] {
            // A decision would be a denial, whatever the choice is.
            let error = store.check(&policy(choice), &Key::from(1_u8), Cost::ONE).await.expect_err("no answer");
            assert_eq!(error.cause(), cause, "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
        assert!(!store.report().answers);
    }
}

#[tokio::test]
async fn a_root_that_hangs_is_an_outage_until_it_answers_a_request() {
    let works = Arc::new(AtomicBool::new(false));
    let answers = Arc::clone(&works);
    let url = server_with(INFO, move |stream| {
        if answers.load(Relaxed) {
            let _ = stream.write_all(b"+PONG\r\n");
        }
    });
    let store = RemoteStore::builder(&url).timeout(Duration::from_millis(20)).connect().expect("a store");
    store.ready().await;
    assert!(store.report().answers);
    let shut = policy(OnStoreFailure::Closed);
    let error = store.check(&shut, &Key::from(1_u8), Cost::ONE).await.expect_err("no answer");
    assert_eq!(error.cause(), "timeout");
    // One request is enough: the connection is given up, and INFO of the next ones is not an answer to a request.
    while metric(&store, "root_connections") < 4 {
        let report = store.report();
        assert!(!report.answers, "nothing was answered");
        assert!(report.degradations.iter().any(|state| state.is_outage), "{:?}", report.degradations);
        tokio::task::yield_now().await;
    }
    works.store(true, Relaxed);
    while !store.report().answers {
        tokio::task::yield_now().await;
    }
}
