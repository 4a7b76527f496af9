//! Settlement of costs that are known only after the call.

use std::time::Duration;

use tidegate::Mode;
use tidegate_tower::caller::{Budget, Permit, SettleError};
use tokio::time::Instant;

use super::{budget, cost, in_use, key, limiter, policy};

#[tokio::test(start_paused = true)]
async fn settling_refunds_a_surplus_and_charges_a_deficit_past_the_limit() {
    let (budget, of) = (budget("1000/1m"), policy("upstream", &["1000/1m"]));
    for (reserved, spent) in [(800, 300), (300, 800), (500, 500), (500, 0), (500, 5000)] {
        let permit = budget.acquire(&key("a"), cost(reserved)).await.expect("there is room");
        permit.settle(spent).await.expect("memory never fails");
        assert_eq!(in_use(&budget, &of, &key("a")), spent, "{reserved} were reserved");
        tokio::time::advance(Duration::from_mins(2)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refund_is_available_to_waiting_callers_at_once() {
    let (budget, began) = (budget("10/1h"), Instant::now());
    let permit = budget.acquire(&key("a"), cost(10)).await.expect("there is room");
    let waiting = budget.clone();
    let waiting = tokio::spawn(async move { waiting.acquire(&key("a"), cost(4)).await.map(drop) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    permit.settle(6).await.expect("memory never fails");
    waiting.await.expect("no panic").expect("it may wait");
    assert_eq!(began.elapsed(), Duration::from_secs(1), "it did not wait for the window to pass");
}

#[tokio::test(start_paused = true)]
async fn a_refund_covers_every_policy() {
    let [requests, tokens] = [policy("requests", &["3/1m"]), policy("tokens", &["1000/1m"])];
    let budget = Budget::all([requests.clone(), tokens.clone()]).in_store(limiter());
    let permit = budget.acquire_each(&key("a"), &[cost(1), cost(700)]).await.expect("there is room");
    permit.refund().await.expect("memory never fails");
    assert_eq!((in_use(&budget, &requests, &key("a")), in_use(&budget, &tokens, &key("a"))), (0, 0));
    let permit = budget.acquire_each(&key("a"), &[cost(1), cost(700)]).await.expect("there is room");
    permit.settle_each(&[1, 123]).await.expect("memory never fails");
    assert_eq!((in_use(&budget, &requests, &key("a")), in_use(&budget, &tokens, &key("a"))), (1, 123));
    let permit = budget.acquire_each(&key("a"), &[cost(1), cost(700)]).await.expect("there is room");
    let uneven = permit.settle_each(&[1]).await;
    assert_eq!(uneven, Err(SettleError::CostCount { given: 1, policies: 2 }));
}

#[tokio::test(start_paused = true)]
async fn a_shadow_denial_is_not_charged_by_settling() {
    let watched = policy("upstream", &["1/1m"]).with_mode(Mode::Shadow);
    let budget = Budget::new(watched.clone()).in_store(limiter());
    for _ in 0..2 {
        let permit = budget.acquire(&key("a"), cost(1)).await.expect("it only watches");
        permit.settle(1).await.expect("memory never fails");
    }
    assert_eq!(in_use(&budget, &watched, &key("a")), 1, "as much as enforcing would hold");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_permit_keeps_the_charge() {
    let (budget, of) = (budget("10/1m"), policy("upstream", &["10/1m"]));
    drop(budget.acquire(&key("a"), cost(4)).await.expect("there is room"));
    assert_eq!(in_use(&budget, &of, &key("a")), 4);
}

#[test]
fn a_refund_during_a_decision_is_not_missed() {
    let budget = Budget::new(policy("upstream", &["1/1h"]));
    let (hand_over, permits) = std::sync::mpsc::channel::<Permit<_>>();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let giving_back = std::thread::spawn(move || {
        for permit in permits {
            runtime().block_on(permit.refund()).expect("memory never fails");
        }
    });
    runtime().block_on(async {
        for _ in 0..20_000 {
            let permit = budget.acquire(&key("a"), cost(1)).await.expect("there is room");
            hand_over.send(permit).expect("somebody takes it");
            // The other thread gives it back while this one asks for it.
            let next = tokio::time::timeout(Duration::from_secs(60), budget.acquire(&key("a"), cost(1))).await;
            let next = next.expect("it sleeps for an hour, and what it waits for is there").expect("it may wait");
            next.refund().await.expect("memory never fails");
        }
    });
    drop(hand_over);
    giving_back.join().expect("no panic");
}
