//! One budget of several processes. Each has its own store, and all use one Redis.

use std::time::Duration;

use futures_util::{FutureExt as _, future::join_all};
use http::{HeaderMap, HeaderValue, StatusCode};
use tidegate::{Key, OnStoreFailure, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;
use tidegate_tower::caller::{AcquireError, Budget, Operation};

use super::{cost, key, policy};
use crate::in_redis::{local, spend, used_there};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

async fn budget(server: &Server, limit: &str) -> Budget<RedisStore> {
    let store = RedisStore::builder(&server.url()).timeout(PATIENCE).connect().expect("a URL");
    store.ready().await;
    Budget::new(policy("upstream", &[limit])).in_store(store)
}

#[tokio::test]
async fn processes_that_share_a_budget_never_exceed_it() {
    let server = Server::start();
    let budgets = join_all((0..4).map(|_| budget(&server, "20/200ms"))).await;
    let acquire = |number: usize| {
        let budget = budgets[number % budgets.len()].clone();
        async move {
            let permit = budget.acquire(&key("a"), cost(1)).await.expect("it may wait");
            permit.decision().charged_at().expect("it was charged").as_micros()
        }
    };
    let mut charged = join_all((0..100).map(acquire)).await;
    charged.sort_unstable();
    for (earlier, later) in charged.iter().zip(&charged[20..]) {
        assert!(later - earlier >= 200_000, "more than 20 in 200 ms");
    }
}

#[tokio::test]
async fn a_pause_reaches_all_processes_that_share_the_budget() {
    let server = Server::start();
    let [one, other] = [budget(&server, "1000/1h").await, budget(&server, "1000/1h").await];
    let permit = one.acquire(&key("a"), cost(1)).await.expect("there is room");
    let headers: HeaderMap = [(http::header::RETRY_AFTER, HeaderValue::from(600))].into_iter().collect();
    permit.apply_response(StatusCode::TOO_MANY_REQUESTS, &headers).await;
    // The same wait twice does not add up.
    permit.apply_response(StatusCode::TOO_MANY_REQUESTS, &headers).await;
    for budget in [&one, &other] {
        match budget.with_max_wait(Duration::from_secs(1)).acquire(&key("a"), cost(1)).await.map(drop) {
            Err(AcquireError::TooLate { retry_after }) => {
                assert!(
                    retry_after <= Duration::from_secs(600) && retry_after > Duration::from_secs(500),
                    "{retry_after:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    let _ = other.with_max_wait(PATIENCE).acquire(&key("b"), cost(1)).await.expect("it is another key");
}

#[tokio::test]
async fn a_caller_that_leaves_while_redis_decides_spends_nothing() {
    let server = Server::start();
    let budget = budget(&server, "10/1h").await;
    let of = policy("upstream", &["10/1h"]);
    let decided = || budget.store().stats().allowed;
    server.pause();
    let call = key("a");
    let mut acquire = Box::pin(budget.acquire(&call, cost(7)));
    assert!(acquire.as_mut().now_or_never().is_none(), "redis does not response");
    drop(acquire);
    server.resume();
    // Both are answered in time, or this waits for ever: the charge, and then that it is given back.
    let settled = async {
        while decided() == 0 {
            tokio::task::yield_now().await;
        }
        loop {
            match budget.store().inspect(&of, &key("a")).await.expect("redis answers") {
                Some(state) if state.limits[0].used > 0 => tokio::task::yield_now().await,
                _ => break,
            }
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.expect("what nobody waited for is given back");
    let _ = budget.with_max_wait(PATIENCE).acquire(&key("a"), cost(10)).await.expect("all of it is there");
}

#[tokio::test]
async fn without_redis_each_operation_follows_its_own_choice() {
    let server = Server::start();
    let store = RedisStore::builder(&server.url()).timeout(Duration::from_secs(2)).connect().expect("a URL");
    store.ready().await;
    let budget = Budget::new(policy("upstream", &["100/1h"]))
        .in_store(store)
        .operation("search.list", Operation::new(cost(10)).on_store_failure(OnStoreFailure::Closed))
        .operation("videos.list", Operation::new(cost(1)).on_store_failure(OnStoreFailure::Open));
    let paid = budget.acquire_operation(&key("a"), "search.list").await.expect("there is room");
    assert!(!paid.decision().is_degraded());
    server.kill();
    let search = budget.acquire_operation(&key("a"), "search.list").await.map(drop);
    assert_eq!(search, Err(AcquireError::StoreUnavailable));
    let videos = budget.acquire_operation(&key("a"), "videos.list").await.expect("it may be made unpaid");
    assert!(videos.decision().is_degraded() && videos.decision().charged_at().is_none());
}

#[tokio::test]
async fn a_permit_reports_the_remaining_budget() {
    let server = Server::start();
    let budget = budget(&server, "10/1h").await;
    let permit = budget.acquire(&key("a"), cost(3)).await.expect("there is room");
    let decision = permit.decision();
    assert_eq!((decision.remaining(), decision.used(), decision.part()), (7, 3, 0));
    assert_eq!(decision.limit(), "10/1h".parse().expect("a limit"));
}

#[tokio::test]
async fn concurrent_pauses_do_not_add_up() {
    let server = Server::start();
    let budgets = join_all((0..8).map(|_| budget(&server, "1000/1h"))).await;
    let wait = |number: u64| Duration::from_secs(if number == 5 { 300 } else { 100 });
    let upstream = key("a");
    join_all((0..).zip(&budgets).map(|(number, budget)| budget.pause(&upstream, wait(number)))).await;
    let fresh = self::budget(&server, "1000/1h").await;
    match fresh.with_max_wait(Duration::ZERO).acquire(&upstream, cost(1)).await.map(drop) {
        Err(AcquireError::TooLate { retry_after }) => {
            assert!((280..=300).contains(&retry_after.as_secs()), "{retry_after:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_caller_that_leaves_during_a_refund_spends_nothing() {
    let server = Server::start();
    let [requests, tokens] = [policy("requests", &["100/1h"]), policy("tokens", &["100/1h"])];
    let store = RedisStore::builder(&server.url()).timeout(PATIENCE).connect().expect("a URL");
    store.ready().await;
    let budget = Budget::all([requests.clone(), tokens.clone()]).in_store(store.clone());
    let of_both = async |key: &Key<'_>| {
        let used = async |policy| store.peek(policy, key, cost(1)).await.expect("an response").used();
        (used(&requests).await, used(&tokens).await)
    };
    for polls in 1..40 {
        let name = Key::new(&format!("{polls}")).expect("a key").into_owned();
        let mut acquire = Box::pin(budget.acquire(&name, cost(1)));
        for poll in 0..polls {
            assert!(acquire.as_mut().now_or_never().is_none(), "it is paused");
            if poll == 0 {
                // Here only: the others would be asked, and that takes longer.
                let mut pause = Box::pin(budget.pause(&name, Duration::from_secs(600)));
                let _ = pause.as_mut().now_or_never();
            }
            tokio::task::yield_now().await;
            std::thread::yield_now();
        }
        drop(acquire);
        let given_back = async { while of_both(&name).await != (0, 0) {} };
        let in_time = tokio::time::timeout(Duration::from_secs(5), given_back).await;
        assert!(in_time.is_ok(), "{:?} in use for nobody, after {polls} polls", of_both(&name).await);
    }
}

#[tokio::test]
async fn a_local_charge_is_not_given_back_in_redis() {
    let server = Server::start();
    let (upstream, store) = local(&server).await;
    let budget = Budget::new(upstream.clone()).in_store(store.clone());
    spend(&store, &upstream, &key("a")).await;
    server.pause();
    let permit = budget.acquire(&key("a"), cost(1)).await.expect("there is room here");
    assert!(permit.decision().is_degraded() && permit.decision().charged_at().is_some());
    server.resume();
    spend(&store, &upstream, &key("a")).await;
    permit.refund().await.expect("there is nothing to ask redis for");
    assert_eq!(used_there(&store, &upstream, &key("a")).await, 2, "both that were spent in Redis");
}
