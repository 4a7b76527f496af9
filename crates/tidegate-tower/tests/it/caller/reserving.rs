//! Calls whose units are reserved until their cost is known.

use std::time::Duration;

use tidegate::{Hold, Policy};
use tidegate_tower::caller::{AcquireError, Budget, HeldCall, SettleError};
use tokio::time::Instant;

use super::{GRAIN, budget, cost, in_use, key, limiter, policy};
use crate::deferred_store::DeferredStore;

fn minute() -> Hold {
    Hold::new(Duration::from_secs(60))
}

fn upstream() -> Policy {
    policy("upstream", &["1000/1h"])
}

#[tokio::test(start_paused = true)]
async fn a_commit_gives_a_surplus_back_and_charges_a_deficit_past_the_limit() {
    let budget = budget("1000/1h");
    for (reserved, spent, expected) in [(800, 300, 300), (300, 0, 300), (300, 900, 1200)] {
        let call = budget.reserve(&key("a"), cost(reserved), minute()).await.expect("there is room");
        assert!(call.commit(spent).await.expect("memory never fails"), "the hold was open");
        assert_eq!(in_use(&budget, &upstream(), &key("a")), expected, "{reserved} were reserved");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_gives_its_units_back() {
    for deferred in [false, true] {
        let limiter = limiter();
        let used = || limiter.inspect(&upstream(), &key("a")).map_or(0, |state| state.limits[0].used);
        if deferred {
            let budget = Budget::new(upstream()).in_store(DeferredStore::new(limiter.clone()));
            reserve_and_drop(&budget, used).await;
        } else {
            reserve_and_drop(&Budget::new(upstream()).in_store(limiter.clone()), used).await;
        }
        assert_eq!(used(), 0);
    }
}

async fn reserve_and_drop<S: tidegate::Store + Clone + 'static>(budget: &Budget<S>, used: impl Fn() -> u64) {
    let call = budget.reserve(&key("a"), cost(700), minute()).await.expect("there is room");
    assert_eq!(used(), 700);
    // As if the program fails, or stops to wait, during the call.
    drop(call);
    tokio::time::sleep(GRAIN).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_ends_gives_its_units_back_at_the_ttl() {
    let budget = budget("1000/1h");
    let call = budget.reserve(&key("a"), cost(700), minute()).await.expect("there is room");
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(call.renew(Duration::from_mins(1)).await.expect("memory never fails"));
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(in_use(&budget, &upstream(), &key("a")), 700);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(in_use(&budget, &upstream(), &key("a")), 0);
    assert!(!call.renew(Duration::from_mins(1)).await.expect("memory never fails"), "it has ended");
    assert!(!call.commit(700).await.expect("memory never fails"), "it has ended");
    assert_eq!(in_use(&budget, &upstream(), &key("a")), 0);
}

#[tokio::test(start_paused = true)]
async fn each_policy_has_its_own_cost() {
    let [calls, tokens] = [policy("calls", &["4/inflight", "3/1m"]), policy("tokens", &["1000/1m"])];
    let budget = Budget::all([calls.clone(), tokens.clone()]).in_store(limiter());
    let units = || {
        let of = |policy| budget.store().inspect(policy, &key("a")).expect("a state").limits;
        (of(&calls)[0].used, of(&calls)[1].used, of(&tokens)[0].used)
    };
    let reserved = [cost(1), cost(700)];
    let call = budget.reserve_each(&key("a"), &reserved, minute()).await.expect("there is room");
    assert_eq!(units(), (1, 1, 700));
    call.commit_each(&[1, 123]).await.expect("memory never fails");
    assert_eq!(units(), (0, 1, 123));
    let call = budget.reserve_each(&key("a"), &reserved, minute()).await.expect("there is room");
    let error = call.commit_each(&[1]).await.expect_err("one is missing");
    assert_eq!(error, SettleError::CostCount { given: 1, policies: 2 });
    assert_eq!(units(), (1, 2, 823), "the call was made, so nothing is given back before the ttl");
}

#[tokio::test(start_paused = true)]
async fn a_malformed_hold_is_an_error() {
    let budget = budget("1000/1h");
    for ttl in [Duration::ZERO, Duration::from_hours(2)] {
        let error = budget.reserve(&key("a"), cost(1), Hold::new(ttl)).await.expect_err("it is out of range");
        assert_eq!(error.to_string(), "the ttl is out of range: use 1ms to 1h");
    }
    let at_once = Budget::new(policy("calls", &["4/inflight"]));
    let error = at_once.acquire(&key("a"), cost(1)).await.expect_err("it needs a hold");
    assert!(matches!(error, AcquireError::Spend(_)), "{error:?}");
    let error = at_once.reserve(&key("a"), cost(5), minute()).await.expect_err("it never fits");
    assert_eq!(error.to_string(), "the call costs 5, more than 4/inflight ever allows: waiting does not help");
}

#[tokio::test(start_paused = true)]
async fn the_next_call_begins_when_one_ends() {
    let budget = budget("2/inflight").with_max_wait(Duration::from_secs(30));
    let began = Instant::now();
    let first = budget.reserve(&key("a"), cost(1), minute()).await.expect("there is room");
    let second = budget.reserve(&key("a"), cost(1), minute()).await.expect("there is room");
    let next = |budget: &Budget| {
        let budget = budget.clone();
        tokio::spawn(
            async move { budget.reserve(&key("a"), cost(1), minute()).await.map(|call| (call, Instant::now())) },
        )
    };
    let (third, fourth) = (next(&budget), next(&budget));
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.commit(1).await.expect("memory never fails");
    let (third, at) = third.await.expect("no panic").expect("it may wait");
    assert_eq!(at - began, Duration::from_secs(5));
    tokio::time::sleep(Duration::from_secs(5)).await;
    drop(second);
    let (fourth, at) = fourth.await.expect("no panic").expect("it may wait");
    assert_eq!(at - began, Duration::from_secs(10));
    match budget.reserve(&key("a"), cost(1), minute()).await {
        Err(AcquireError::TooLate { .. }) => assert_eq!(began.elapsed(), Duration::from_secs(40), "it waits in vain"),
        other => panic!("{other:?}"),
    }
    drop((third, fourth));
}

#[tokio::test(start_paused = true)]
async fn calls_of_other_processes_that_end_are_noticed() {
    let limiter = limiter();
    let budget = || {
        let budget = Budget::new(policy("upstream", &["1/inflight"])).in_store(DeferredStore::new(limiter.clone()));
        budget.with_max_wait(Duration::from_secs(30))
    };
    // They share the store, and no queue.
    let (one, other) = (budget(), budget());
    let call = one.reserve(&key("a"), cost(1), minute()).await.expect("there is room");
    let waiting = tokio::spawn(async move { other.reserve(&key("a"), cost(1), minute()).await.map(drop) });
    tokio::time::sleep(Duration::from_secs(5)).await;
    call.commit(1).await.expect("the store answers");
    let ended = Instant::now();
    waiting.await.expect("no panic").expect("it may wait");
    assert!(ended.elapsed() <= Duration::from_millis(250) + 2 * GRAIN, "{:?}", ended.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_while_the_store_decides_reserves_nothing() {
    let limiter = limiter();
    let store = DeferredStore::silent(limiter.clone());
    let budget = Budget::new(upstream()).in_store(store.clone());
    let used = || limiter.inspect(&upstream(), &key("a")).map_or(0, |state| state.limits[0].used);
    let caller = tokio::spawn(async move { budget.reserve(&key("a"), cost(7), minute()).await.map(drop) });
    tokio::time::sleep(GRAIN).await;
    assert_eq!(used(), 7, "granted, and the answer is on its way");
    caller.abort();
    store.gate.add_permits(1);
    tokio::time::sleep(GRAIN).await;
    assert_eq!(used(), 0);
}

/// Fifty concurrent calls of 20 tokens each, whose actual cost is known only afterwards.
#[tokio::test(start_paused = true)]
async fn fifty_concurrent_calls_never_spend_more_than_the_budget_in_any_minute() {
    let budget = Budget::new(policy("tokens", &["100/1m"])).in_store(limiter());
    let call = |number: u64| {
        let budget = budget.clone();
        tokio::spawn(async move {
            let call: HeldCall<_> = budget.reserve(&key("a"), cost(20), minute()).await.expect("it may wait");
            let charged_at = call.decision().charged_at().expect("it is charged").as_micros();
            tokio::time::sleep(Duration::from_millis(10 + number)).await;
            let tokens = 5 + number % 16;
            call.commit(tokens).await.expect("memory never fails");
            (charged_at, tokens)
        })
    };
    let calls: Vec<_> = (0..50).map(call).collect();
    let mut charges = Vec::new();
    for call in calls {
        charges.push(call.await.expect("no panic"));
    }
    let minute_from = |begin: u64| {
        let inside = |(at, _): &&(u64, u64)| (begin..begin + 60_000_000).contains(at);
        charges.iter().filter(inside).map(|(_, tokens)| tokens).sum::<u64>()
    };
    let most = charges.iter().map(|(begin, _)| minute_from(*begin)).max().expect("fifty calls");
    assert!((81..=100).contains(&most), "{most} of 100 tokens in a minute");
}

/// Two budgets that share the store, and no queue, as two processes do.
fn two_processes(of: &Policy) -> [Budget<DeferredStore>; 2] {
    let limiter = limiter();
    [0, 1].map(|_| Budget::new(of.clone()).in_store(DeferredStore::new(limiter.clone())))
}

#[tokio::test(start_paused = true)]
async fn units_that_other_processes_give_back_are_noticed() {
    for (limit, wait, noticed_ms) in [("1000/1h", 50, 5_000), ("1000/1m", 20, 5_000), ("1000/2s", 1, 250)] {
        let [one, other] = two_processes(&policy("upstream", &[limit]));
        let call = one.reserve(&key("a"), cost(1000), minute()).await.expect("there is room");
        let waiting = tokio::spawn(async move {
            let call = other.acquire(&key("a"), cost(700)).await.map(drop);
            call.map(|()| Instant::now())
        });
        tokio::time::sleep(Duration::from_secs(wait)).await;
        let at = Instant::now();
        assert!(call.commit(300).await.expect("the store answers"), "{limit}");
        let admitted = waiting.await.expect("no panic").expect("it fits");
        let noticed = Duration::from_millis(noticed_ms) + 2 * GRAIN;
        assert!(admitted - at <= noticed, "{limit}: {:?} after the commit", admitted - at);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_takes_few_requests_to_the_store() {
    let [one, other] = two_processes(&policy("upstream", &["1000/1h"]));
    let _ = one.acquire(&key("a"), cost(1000)).await.expect("there is room");
    let began = Instant::now();
    let _ = other.acquire(&key("a"), cost(1)).await.expect("it may wait");
    assert!(began.elapsed() < Duration::from_secs(3601), "{:?}", began.elapsed());
    let asked = other.store().asked.load(std::sync::atomic::Ordering::SeqCst);
    assert!((700..800).contains(&asked), "{asked} requests in an hour");
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_other_processes_share_is_not_asked_for_again_and_again() {
    let [one, other] = two_processes(&policy("upstream", &["1000/1h"]));
    one.pause(&key("a"), Duration::from_secs(600)).await;
    let began = Instant::now();
    let _ = other.acquire(&key("a"), cost(1)).await.expect("it may wait");
    assert!((600..602).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    let asked = other.store().asked.load(std::sync::atomic::Ordering::SeqCst);
    assert!(asked <= 3, "{asked} requests");
}
