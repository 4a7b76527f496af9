//! When callers are admitted, and in which order.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate::Override;
use tidegate_tower::caller::{AcquireError, Budget, Call, Operation};
use tokio::{sync::mpsc, time::Instant};

use super::{GRAIN, budget, cost, in_use, key, limiter, policy};

#[tokio::test(start_paused = true)]
async fn a_call_that_fits_is_immediate_and_others_wait_no_longer_than_needed() {
    let (budget, began) = (budget("2/1s"), Instant::now());
    for _ in 0..2 {
        let _ = budget.acquire(&key("a"), cost(1)).await.expect("there is room");
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    let _ = budget.acquire(&key("a"), cost(1)).await.expect("it may wait");
    let waited = began.elapsed();
    assert!((Duration::from_secs(1)..=Duration::from_secs(1) + GRAIN).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn keys_do_not_wait_for_each_other() {
    let (budget, began) = (budget("1/1h"), Instant::now());
    let _ = budget.acquire(&key("a"), cost(1)).await.expect("there is room");
    let waiting = budget.clone();
    let waiting = tokio::spawn(async move { waiting.acquire(&key("a"), cost(1)).await.map(drop) });
    tokio::task::yield_now().await;
    let _ = budget.acquire(&key("b"), cost(1)).await.expect("it is another key");
    assert_eq!((began.elapsed(), budget.waiting()), (Duration::ZERO, 1));
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn callers_are_served_in_order_of_arrival_whatever_their_costs() {
    let budget = budget("10/1s");
    let _ = budget.acquire(&key("a"), cost(10)).await.expect("there is room");
    let (sender, mut receiver) = mpsc::unbounded_channel();
    for (number, units) in [9, 1, 8, 1, 1].into_iter().enumerate() {
        let (budget, sender) = (budget.clone(), sender.clone());
        tokio::spawn(async move {
            let _ = budget.acquire(&key("a"), cost(units)).await.expect("it may wait");
            sender.send(number).expect("somebody listens");
        });
        // Each caller queues before the next one arrives.
        tokio::task::yield_now().await;
    }
    drop(sender);
    let mut order = Vec::new();
    while let Some(number) = receiver.recv().await {
        order.push(number);
    }
    assert_eq!(order, [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_callers_of_one_key_are_served_in_order() {
    const WAITERS: usize = 10_000;
    let (budget, began) = (budget("100/1s"), Instant::now());
    let acquire = |number: usize| {
        let budget = budget.clone();
        async move {
            let permit = budget.acquire(&key("a"), cost(1)).await.expect("it may wait");
            let charged_at = permit.decision().charged_at().expect("it was charged").as_micros();
            (charged_at, number)
        }
    };
    let served = join_all((0..WAITERS).map(acquire)).await;
    assert!(served.is_sorted(), "somebody overtook another");
    for (later, earlier) in served[100..].iter().zip(&served) {
        assert!(later.0 - earlier.0 >= 1_000_000, "more than 100 in a second");
    }
    // A hundred at once, then a hundred each second: each wait may be noticed a grain late.
    let (least, took) = (Duration::from_secs(99), began.elapsed());
    assert!((least..=least + 99 * GRAIN).contains(&took), "{took:?}");
    assert_eq!(budget.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_fit_in_time_fails_at_once_with_the_wait() {
    let (budget, began) = (budget("1/1m"), Instant::now());
    let _ = budget.acquire(&key("a"), cost(1)).await.expect("there is room");
    let late = budget.with_max_wait(Duration::from_secs(10)).acquire(&key("a"), cost(1)).await;
    assert_eq!(late.map(drop), Err(AcquireError::TooLate { retry_after: Duration::from_mins(1) }));
    let now = budget.with_max_wait(Duration::ZERO).acquire(&key("a"), cost(1)).await;
    assert_eq!(now.map(drop), Err(AcquireError::TooLate { retry_after: Duration::from_mins(1) }));
    assert_eq!((began.elapsed(), budget.waiting()), (Duration::ZERO, 0));
    let _ = budget.with_max_wait(Duration::from_mins(1)).acquire(&key("b"), cost(1)).await.expect("there is room");
    let waited = budget.with_max_wait(Duration::from_mins(1)).acquire(&key("b"), cost(1)).await;
    assert!(waited.is_ok(), "just in time is in time");
}

#[tokio::test(start_paused = true)]
async fn a_caller_behind_others_times_out() {
    let (budget, began) = (budget("1/1m"), Instant::now());
    let _ = budget.acquire(&key("a"), cost(1)).await.expect("there is room");
    let first = budget.clone();
    let first = tokio::spawn(async move { first.acquire(&key("a"), cost(1)).await.map(drop) });
    tokio::task::yield_now().await;
    let second = budget.with_max_wait(Duration::from_secs(10)).acquire(&key("a"), cost(1)).await;
    assert_eq!(second.map(drop), Err(AcquireError::TimedOut));
    assert!(began.elapsed() <= Duration::from_secs(10) + GRAIN);
    first.await.expect("no panic").expect("it is served all the same");
    assert_eq!(in_use(&budget, &policy("upstream", &["1/1m"]), &key("a")), 1);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_waiting_callers_is_limited() {
    let budget = budget("1/1m").max_waiting(2);
    let _ = budget.acquire(&key("a"), cost(1)).await.expect("there is room");
    for _ in 0..2 {
        let budget = budget.clone();
        tokio::spawn(async move { budget.acquire(&key("a"), cost(1)).await.map(drop) });
    }
    tokio::task::yield_now().await;
    let third = budget.acquire(&key("b"), cost(1)).await;
    assert_eq!(third.map(drop), Err(AcquireError::QueueFull { max: 2 }));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_fits_fails_without_queueing() {
    let budget = budget("5/1m");
    let _ = budget.acquire(&key("a"), cost(5)).await.expect("there is room");
    let waiting = budget.clone();
    tokio::spawn(async move { waiting.acquire(&key("a"), cost(1)).await.map(drop) });
    tokio::task::yield_now().await;
    let never = budget.acquire(&key("a"), cost(6)).await.map(drop);
    let limit = "5/1m".parse().expect("a limit");
    assert_eq!(never, Err(AcquireError::Impossible { cost: 6, limit }));
    assert!(never.unwrap_err().to_string().contains("more than 5/1m ever allows"));
}

#[tokio::test(start_paused = true)]
async fn a_banned_key_fails_at_once() {
    let (budget, began) = (budget("5/1m"), Instant::now());
    let upstream = policy("upstream", &["5/1m"]);
    let limiter = budget.store();
    let end = limiter.clock().now().after(Duration::from_secs(7));
    limiter.set_override(&upstream, &key("a"), Override::ban().until(end)).expect("there is room");
    limiter.set_override(&upstream, &key("b"), Override::ban()).expect("there is room");
    let timed = budget.acquire(&key("a"), cost(1)).await.map(drop);
    assert_eq!(timed, Err(AcquireError::Banned { retry_after: Some(Duration::from_secs(7)) }));
    assert_eq!(timed.unwrap_err().to_string(), "the key is banned from this budget: the ban ends in 7s");
    let permanent = budget.acquire(&key("b"), cost(1)).await.map(drop);
    assert_eq!(permanent, Err(AcquireError::Banned { retry_after: None }));
    assert_eq!(permanent.unwrap_err().to_string(), "the key is banned from this budget, and the ban has no end");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn several_policies_are_charged_together_or_not_at_all() {
    let [requests, tokens] = [policy("requests", &["3/1m"]), policy("tokens", &["1000/1m"])];
    let budget = Budget::all([requests.clone(), tokens.clone()]).in_store(limiter());
    let now = budget.with_max_wait(Duration::ZERO);
    let _ = now.acquire_each(&key("a"), &[cost(1), cost(900)]).await.expect("there is room");
    let late = now.acquire_each(&key("a"), &[cost(1), cost(200)]).await.map(drop);
    assert_eq!(late, Err(AcquireError::TooLate { retry_after: Duration::from_mins(1) }));
    assert_eq!(in_use(&budget, &requests, &key("a")), 1, "what tokens denied was not charged as a request");
    let _ = now.acquire_each(&key("a"), &[cost(1), cost(100)]).await.expect("there is room");
    assert_eq!((in_use(&budget, &requests, &key("a")), in_use(&budget, &tokens, &key("a"))), (2, 1000));
    let uneven = now.acquire_each(&key("a"), &[cost(1)]).await.map(drop);
    assert_eq!(uneven, Err(AcquireError::CostCount { given: 1, policies: 2 }));
}

#[tokio::test(start_paused = true)]
async fn the_case_of_a_host_name_does_not_matter() {
    let now = budget("1/1m").with_max_wait(Duration::ZERO);
    for host in ["api.example.com", "", &"x".repeat(5000)] {
        let _ = now.acquire_call(Call::to_host(host)).await.expect("there is room");
        let again = now.acquire_call(Call::to_host(&host.to_uppercase())).await.map(drop);
        assert!(matches!(again, Err(AcquireError::TooLate { .. })), "{host:.20}");
    }
}

#[tokio::test(start_paused = true)]
async fn operations_have_the_costs_of_the_budget() {
    let budget = budget("100/1m")
        .operation("search.list", Operation::new(cost(60)))
        .operation("videos.list", Operation::new(cost(1)));
    let of = policy("upstream", &["100/1m"]);
    let now = budget.with_max_wait(Duration::ZERO);
    let _ = now.acquire_operation(&key("a"), "search.list").await.expect("there is room");
    assert!(matches!(now.acquire_operation(&key("a"), "search.list").await, Err(AcquireError::TooLate { .. })));
    let _ = now.acquire_call(Call::new(&key("a")).operation("videos.list")).await.expect("there is room");
    assert_eq!(in_use(&budget, &of, &key("a")), 61);
    let unknown = now.acquire_operation(&key("a"), "serach.list").await.map(drop).expect_err("there is none");
    assert_eq!(unknown.to_string(), "the budget has no operation `serach.list`; it has: search.list, videos.list");
}

#[tokio::test(start_paused = true)]
async fn a_caller_can_wait_for_weeks() {
    let (budget, day) = (budget("1/30d"), Duration::from_hours(24));
    let _ = budget.acquire(&key("a"), cost(1)).await.expect("there is room");
    for patience in [31 * day, Duration::MAX] {
        let began = Instant::now();
        let _ = budget.with_max_wait(patience).acquire(&key("a"), cost(1)).await.expect("it may wait");
        assert!(began.elapsed() >= 29 * day, "{:?}", began.elapsed());
    }
}
