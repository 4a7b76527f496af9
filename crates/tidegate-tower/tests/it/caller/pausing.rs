//! Pauses that a server requests.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use tidegate_tower::caller::AcquireError;
use tokio::time::Instant;

use super::{GRAIN, budget, cost, key, queue};

fn retry_after(seconds: u64) -> HeaderMap {
    [(http::header::RETRY_AFTER, HeaderValue::from(seconds))].into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn a_pause_delays_only_its_key() {
    let (budget, began) = (budget("100/1m"), Instant::now());
    let permit = budget.acquire(&key("a"), cost(1)).await.expect("there is room");
    let wait = permit.apply_response(StatusCode::TOO_MANY_REQUESTS, &retry_after(30)).await;
    assert_eq!(wait, Some(Duration::from_secs(30)));
    let late = budget.with_max_wait(Duration::from_secs(5)).acquire(&key("a"), cost(1)).await.map(drop);
    assert_eq!(late, Err(AcquireError::TooLate { retry_after: Duration::from_secs(30) }));
    let _ = budget.with_max_wait(Duration::ZERO).acquire(&key("b"), cost(1)).await.expect("it is another key");
    let _ = budget.acquire(&key("a"), cost(1)).await.expect("it may wait");
    let waited = began.elapsed();
    assert!((Duration::from_secs(30)..=Duration::from_secs(30) + GRAIN).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pause_delays_queued_callers() {
    let (budget, began) = (budget("1/1s"), Instant::now());
    let permit = budget.acquire(&key("a"), cost(1)).await.expect("there is room");
    let callers = queue(&budget, 3).await;
    permit.apply_response(StatusCode::SERVICE_UNAVAILABLE, &retry_after(60)).await;
    for (place, waiting) in callers.into_iter().enumerate() {
        waiting.await.expect("no panic").expect("it may wait");
        let least = Duration::from_secs(60 + place as u64);
        assert!(began.elapsed() >= least, "{:?} instead of {least:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_shorter_pause_does_not_end_a_longer_one() {
    let (budget, began) = (budget("100/1m"), Instant::now());
    let permit = budget.acquire(&key("a"), cost(1)).await.expect("there is room");
    permit.apply_response(StatusCode::TOO_MANY_REQUESTS, &retry_after(30)).await;
    permit.apply_response(StatusCode::TOO_MANY_REQUESTS, &retry_after(2)).await;
    let _ = budget.acquire(&key("a"), cost(1)).await.expect("it may wait");
    assert!(began.elapsed() >= Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_rejection_without_a_wait_uses_the_default_pause() {
    let budget = budget("100/1m");
    let permit = budget.acquire(&key("a"), cost(1)).await.expect("there is room");
    for (status, pause) in [(429, Some(1)), (503, Some(1)), (200, None), (500, None), (403, None)] {
        let status = StatusCode::from_u16(status).expect("a status");
        assert_eq!(permit.apply_response(status, &HeaderMap::new()).await, pause.map(Duration::from_secs), "{status}");
    }
    let exhausted = [(http::HeaderName::from_static("grpc-status"), HeaderValue::from(8))].into_iter().collect();
    assert_eq!(
        permit.apply_response(StatusCode::OK, &exhausted).await,
        Some(Duration::from_secs(1)),
        "gRPC's word for it"
    );
    let patient = budget.default_pause(Duration::from_secs(9));
    let wait = patient.apply_response(&key("b"), StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new()).await;
    assert_eq!(wait, Some(Duration::from_secs(9)));
}
