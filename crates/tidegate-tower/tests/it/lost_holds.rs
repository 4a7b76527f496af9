//! Holds that end before their requests: after a reset, and after an outage of the store that is longer than the ttl.

use std::{
    convert::Infallible,
    future::Future,
    sync::{Arc, Mutex, atomic::Ordering::SeqCst},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tidegate::{Cost, Hold, Key, Limiter, OnStoreFailure, Policy, Share};
use tidegate_tower::{HoldChange, RateLimitLayer, Rule, key::Global};
use tower::{Layer as _, ServiceExt as _};

use crate::{
    deferred_store::DeferredStore,
    in_flight::{state, with_tokio_clock},
    test_server::policy,
};

/// The changes of holds: what happened, the policy and the key.
type Changes = Arc<Mutex<Vec<(HoldChange, String, String)>>>;

/// A layer that records the changes of its holds.
fn recorded(rules: impl IntoIterator<Item = Rule>) -> (Changes, RateLimitLayer) {
    let changes = Changes::default();
    let record = Arc::clone(&changes);
    let layer = RateLimitLayer::all(rules).on_hold_change(move |event| {
        let (policy, key) = (event.policy.name().unwrap_or_default(), String::from_utf8_lossy(event.key.as_bytes()));
        record.lock().expect("no panic").push((event.change, policy.to_owned(), key.into_owned()));
    });
    (changes, layer)
}

fn everyone() -> Key<'static> {
    Key::new("everyone").expect("a key")
}

fn rule(policy: &Policy) -> Rule {
    Rule::new(policy.clone()).key(Global)
}

fn change(change: HoldChange, policy: &str) -> (HoldChange, String, String) {
    (change, policy.to_owned(), "everyone".to_owned())
}

/// Calls a page. Its body keeps the hold until it is dropped.
async fn page<S: tidegate::Store + Clone + 'static>(layer: &RateLimitLayer, store: S) -> Response<Full<Bytes>> {
    let page = tower::service_fn(async |_: http::Request<Full<Bytes>>| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
    });
    layer.clone().in_store(store).layer(page).oneshot(http::Request::default()).await.expect("it can't fail")
}

/// Lets the tasks of dropped holds run.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_hold_was_reset_is_reserved_again_and_released_once() {
    let of = policy("api", &["4/inflight", "10/1h"]);
    let limiter = with_tokio_clock();
    for store in [0, 1] {
        let (changes, layer) = recorded([rule(&of)]);
        let response = if store == 0 {
            page(&layer, limiter.clone()).await
        } else {
            page(&layer, DeferredStore::new(limiter.clone())).await
        };
        assert!(limiter.reset(&of, &everyone()));
        seconds(31).await;
        assert_eq!(state(&limiter, &of, "everyone"), (1, vec![1, 1]), "renewed after half of the ttl");
        let expected = [change(HoldChange::Lost, "api"), change(HoldChange::ReservedAgain, "api")];
        assert_eq!(*changes.lock().expect("no panic"), expected);
        // The new hold is renewed like the first one.
        seconds(600).await;
        assert_eq!(state(&limiter, &of, "everyone"), (1, vec![1, 1]));
        drop(response);
        settle().await;
        assert_eq!(state(&limiter, &of, "everyone"), (0, vec![0, 1]));
        assert_eq!(changes.lock().expect("no panic").len(), 2, "nothing else is lost");
        assert!(limiter.reset(&of, &everyone()));
    }
}

/// Calls a page, and lets the store be silent for longer than the ttl while the page is sent.
async fn through_an_outage<T: Future<Output = ()>>(
    hold: Hold,
    layer: RateLimitLayer,
    limiter: &Arc<Limiter>,
    then: impl FnOnce(Response<Full<Bytes>>) -> T,
) {
    let store = DeferredStore::new(limiter.clone());
    let response = page(&layer.hold(hold), store.clone()).await;
    store.fails.store(true, SeqCst);
    seconds(65).await;
    store.fails.store(false, SeqCst);
    seconds(31).await;
    then(response).await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_longer_than_the_ttl_charges_nothing_twice() {
    let minute = Duration::from_secs(60);
    for hold in [Hold::new(minute).spent_at_end(), Hold::new(minute)] {
        let of = policy("api", &["4/inflight", "10/1h"]);
        let limiter = with_tokio_clock();
        let (changes, layer) = recorded([rule(&of)]);
        through_an_outage(hold, layer, &limiter, async |response| {
            assert_eq!(state(&limiter, &of, "everyone").0, 1, "it is reserved again");
            drop(response);
            settle().await;
            assert_eq!(state(&limiter, &of, "everyone"), (0, vec![0, 1]), "{hold:?}: one request is charged once");
        })
        .await;
        let expected = [change(HoldChange::Lost, "api"), change(HoldChange::ReservedAgain, "api")];
        assert_eq!(*changes.lock().expect("no panic"), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_fit_any_more_is_reserved_when_it_does() {
    let of = policy("api", &["1/inflight"]);
    let limiter = with_tokio_clock();
    let (changes, layer) = recorded([rule(&of)]);
    let response = page(&layer, limiter.clone()).await;
    assert!(limiter.reset(&of, &everyone()));
    let other = limiter.reserve(&of, &everyone(), Cost::ONE, Hold::new(Duration::from_secs(100)));
    let other = other.expect("well-formed").id.expect("there is room");
    seconds(90).await;
    assert_eq!(*changes.lock().expect("no panic"), [change(HoldChange::Lost, "api")], "it never exceeds the limit");
    assert_eq!(state(&limiter, &of, "everyone").0, 1);
    assert!(limiter.release(&other, &of).expect("well-formed").known);
    seconds(16).await;
    assert_eq!(changes.lock().expect("no panic").last(), Some(&change(HoldChange::ReservedAgain, "api")));
    assert_eq!(state(&limiter, &of, "everyone").0, 1, "at the next quarter of the ttl");
    drop(response);
    assert_eq!(state(&limiter, &of, "everyone").0, 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_ends_while_it_has_no_hold_leaves_none() {
    let of = policy("api", &["1/inflight"]);
    let limiter = with_tokio_clock();
    let (changes, layer) = recorded([rule(&of)]);
    let response = page(&layer, limiter.clone()).await;
    assert!(limiter.reset(&of, &everyone()));
    let other = limiter.reserve(&of, &everyone(), Cost::ONE, Hold::new(Duration::from_secs(3000)));
    let other = other.expect("well-formed").id.expect("there is room");
    seconds(90).await;
    drop(response);
    assert!(limiter.release(&other, &of).expect("well-formed").known);
    seconds(600).await;
    assert_eq!(state(&limiter, &of, "everyone").0, 0);
    assert_eq!(*changes.lock().expect("no panic"), [change(HoldChange::Lost, "api")], "lost once");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_ends_while_the_store_reserves_again_leaves_no_hold() {
    let of = policy("api", &["4/inflight"]);
    let limiter = with_tokio_clock();
    let (_, layer) = recorded([rule(&of)]);
    let store = DeferredStore::new(limiter.clone());
    let response = page(&layer, store.clone()).await;
    assert!(limiter.reset(&of, &everyone()));
    let permit = store.gate.acquire().await.expect("it is never closed");
    seconds(31).await;
    settle().await;
    // One answer: the hold is unknown. Then the store reserves again, and does not answer.
    drop(permit);
    let permit = loop {
        tokio::task::yield_now().await;
        if state(&limiter, &of, "everyone").0 == 1 {
            break store.gate.acquire().await.expect("it is never closed");
        }
    };
    drop(response);
    settle().await;
    drop(permit);
    settle().await;
    assert_eq!(state(&limiter, &of, "everyone").0, 0);
}

#[tokio::test(start_paused = true)]
async fn only_the_rules_that_count_until_the_end_are_reserved_again() {
    let (at_once, tokens) = (policy("at-once", &["4/inflight"]), policy("tokens", &["100/1h"]));
    let limiter = with_tokio_clock();
    let (changes, layer) = recorded([rule(&tokens).cost(|_| 40).reserve(), rule(&at_once)]);
    let response = page(&layer, limiter.clone()).await;
    assert_eq!(
        (state(&limiter, &at_once, "everyone"), state(&limiter, &tokens, "everyone")),
        ((1, vec![1]), (1, vec![40]))
    );
    // The first of the requests leads to the others, so all of the hold is lost.
    assert!(limiter.reset(&tokens, &everyone()) && limiter.reset(&at_once, &everyone()));
    seconds(31).await;
    assert_eq!(state(&limiter, &at_once, "everyone"), (1, vec![1]));
    assert_eq!(state(&limiter, &tokens, "everyone").0, 0);
    let lost = [change(HoldChange::Lost, "tokens"), change(HoldChange::Lost, "at-once")];
    let expected = [&lost[..], &[change(HoldChange::ReservedAgain, "at-once")]].concat();
    assert_eq!(*changes.lock().expect("no panic"), expected);
    drop(response);
    assert_eq!(state(&limiter, &at_once, "everyone").0, 0);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_lost_shortly_before_the_end_is_reported_then() {
    let of = policy("api", &["4/inflight"]);
    let limiter = with_tokio_clock();
    let (changes, layer) = recorded([rule(&of)]);
    let response = page(&layer, limiter.clone()).await;
    assert!(limiter.reset(&of, &everyone()));
    drop(response);
    assert_eq!(*changes.lock().expect("no panic"), [change(HoldChange::Lost, "api")]);
    assert_eq!(state(&limiter, &of, "everyone").0, 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_reserved_only_for_its_cost_is_not_reserved_again() {
    let of = policy("tokens", &["100/1h"]);
    let limiter = with_tokio_clock();
    let (changes, layer) = recorded([rule(&of).cost(|_| 40).reserve()]);
    let slow = tower::service_fn(async |_: http::Request<Full<Bytes>>| {
        seconds(600).await;
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let responding = tokio::spawn(layer.in_store(limiter.clone()).layer(slow).oneshot(http::Request::default()));
    seconds(1).await;
    assert!(limiter.reset(&of, &everyone()));
    responding.await.expect("no panic").expect("it can't fail");
    assert_eq!(*changes.lock().expect("no panic"), [change(HoldChange::Lost, "tokens")]);
    assert_eq!(state(&limiter, &of, "everyone"), (0, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn what_is_reserved_without_the_store_is_no_new_hold() {
    let share = Share::new(0.5).expect("in range");
    for choice in [OnStoreFailure::Open, OnStoreFailure::Closed, OnStoreFailure::Local(share)] {
        let of = policy("api", &["4/inflight"]).with_on_store_failure(choice);
        let limiter = with_tokio_clock();
        let (changes, layer) = recorded([rule(&of)]);
        let store = DeferredStore::new(limiter.clone());
        let response = page(&layer, store.clone()).await;
        assert!(limiter.reset(&of, &everyone()));
        store.fails_to_reserve.store(true, SeqCst);
        seconds(90).await;
        assert_eq!(*changes.lock().expect("no panic"), [change(HoldChange::Lost, "api")], "{choice:?}");
        store.fails_to_reserve.store(false, SeqCst);
        seconds(16).await;
        assert_eq!(state(&limiter, &of, "everyone"), (1, vec![1]), "{choice:?}");
        assert_eq!(changes.lock().expect("no panic").last(), Some(&change(HoldChange::ReservedAgain, "api")));
        drop(response);
        settle().await;
        assert_eq!(state(&limiter, &of, "everyone").0, 0, "{choice:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_end_before_their_turn_to_be_renewed_are_not_reserved_again() {
    let of = policy("api", &["1000/inflight", "1000/1h"]);
    let limiter = with_tokio_clock();
    let (changes, layer) = recorded([rule(&of)]);
    let store = DeferredStore::new(limiter.clone());
    let page = tower::service_fn(async |_: http::Request<Full<Bytes>>| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
    });
    let service = layer.in_store(store.clone()).layer(page);
    let mut responses = Vec::new();
    // More than are renewed at once.
    for _ in 0..300 {
        responses.push(service.clone().oneshot(http::Request::default()).await.expect("it can't fail"));
    }
    let permit = store.gate.acquire().await.expect("it is never closed");
    seconds(31).await;
    drop(responses);
    settle().await;
    drop(permit);
    seconds(60).await;
    assert_eq!(state(&limiter, &of, "everyone"), (0, vec![0, 300]));
    assert_eq!(*changes.lock().expect("no panic"), []);
}
