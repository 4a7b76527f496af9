//! A caller that stops waiting spends nothing and delays no other caller.

use std::time::Duration;

use tidegate_tower::caller::AcquireError;
use tokio::time::Instant;

use super::{GRAIN, budget, cost, in_use, key, policy, queue};

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_the_queue_spends_nothing() {
    let (budget, of) = (budget("1/1m"), policy("upstream", &["1/1m"]));
    let _ = budget.acquire(&key("a"), cost(1)).await.expect("there is room");
    let callers = queue(&budget, 3).await;
    assert_eq!(budget.waiting(), 3);
    // The first, who asks the store by and by, the last, and then the one between them.
    for place in [0, 2, 1] {
        callers[place].abort();
        tokio::task::yield_now().await;
    }
    assert_eq!(budget.waiting(), 0);
    tokio::time::advance(Duration::from_mins(2)).await;
    assert_eq!(in_use(&budget, &of, &key("a")), 0);
    let _ = budget.with_max_wait(Duration::ZERO).acquire(&key("a"), cost(1)).await.expect("nobody has spent it");
}

#[tokio::test(start_paused = true)]
async fn the_next_caller_replaces_a_first_one_that_has_left() {
    let (budget, began) = (budget("1/1m"), Instant::now());
    let _ = budget.acquire(&key("a"), cost(1)).await.expect("there is room");
    let [first, second] = [(), ()].map(|()| {
        let budget = budget.clone();
        tokio::spawn(async move { budget.acquire(&key("a"), cost(1)).await.map(drop) })
    });
    tokio::time::sleep(Duration::from_secs(30)).await;
    first.abort();
    second.await.expect("no panic").expect("it may wait");
    let waited = began.elapsed();
    assert!((Duration::from_mins(1)..=Duration::from_mins(1) + 2 * GRAIN).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_never_polled_does_not_queue() {
    let budget = budget("1/1m");
    let call = key("a");
    let never = budget.acquire(&call, cost(1));
    assert_eq!(budget.waiting(), 0);
    drop(never);
    let now = budget.with_max_wait(Duration::ZERO);
    let _ = now.acquire(&key("a"), cost(1)).await.expect("nobody has spent it");
    assert!(matches!(now.acquire(&key("a"), cost(1)).await, Err(AcquireError::TooLate { .. })));
}
