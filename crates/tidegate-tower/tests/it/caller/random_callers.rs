//! Callers that arrive, wait, leave, refund and pause at random. No window ever exceeds the limit, callers are served in
//! order, and in the end only the settled units are spent.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use proptest::{collection::vec, prelude::*};
use tidegate_tower::caller::Budget;

use super::{cost, in_use, key, limiter, policy};

#[derive(Debug, Clone)]
struct Caller {
    /// The time of arrival in milliseconds.
    arrives_at: u64,
    units: u64,
    /// The time in milliseconds after which the future is dropped.
    dropped_after: Option<u64>,
    /// The maximum wait of the budget in milliseconds.
    max_wait: Option<u64>,
    spent: u64,
}

fn caller() -> impl Strategy<Value = Caller> {
    let sometimes = || prop_oneof![3 => Just(None), 1 => (0_u64..3_000).prop_map(Some)];
    (0_u64..4_000, 1_u64..=8, sometimes(), sometimes(), 0_u64..=8).prop_map(
        |(arrives_at, units, dropped_after, max_wait, spent)| Caller {
            arrives_at,
            units,
            dropped_after,
            max_wait,
            // Never more than was reserved: what is charged past a limit is allowed to exceed it.
            spent: spent.min(units),
        },
    )
}

#[derive(Debug, Clone, Copy)]
struct Served {
    came: usize,
    at: u64,
    spent: u64,
}

/// Returns the served callers, and the units in use and the time at the end.
async fn run(callers: Vec<Caller>, max: u64) -> (Vec<Served>, u64, u64) {
    let of = policy("upstream", &[&format!("{max}/1s")]);
    let budget = Budget::new(of.clone()).in_store(limiter());
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut order: Vec<usize> = (0..callers.len()).collect();
    order.sort_by_key(|number| callers[*number].arrives_at);
    let mut under_way = Vec::new();
    let mut now = 0;
    for (came, number) in order.into_iter().enumerate() {
        let caller = callers[number].clone();
        tokio::time::sleep(Duration::from_millis(caller.arrives_at - now)).await;
        now = caller.arrives_at;
        let budget =
            caller.max_wait.map_or(budget.clone(), |max_wait| budget.with_max_wait(Duration::from_millis(max_wait)));
        let served = Arc::clone(&served);
        under_way.push(tokio::spawn(async move {
            let (who, asked) = (key("a"), cost(caller.units));
            let acquire = budget.acquire(&who, asked);
            let permit = match caller.dropped_after {
                Some(dropped_after) => {
                    match tokio::time::timeout(Duration::from_millis(dropped_after), acquire).await {
                        Ok(permit) => permit,
                        Err(_) => return,
                    }
                }
                None => acquire.await,
            };
            if let Ok(permit) = permit {
                let at = permit.decision().charged_at().expect("it was charged").as_micros();
                permit.settle(caller.spent).await.expect("memory never fails");
                served.lock().expect("no panic").push(Served { came, at, spent: caller.spent });
            }
        }));
        tokio::task::yield_now().await;
    }
    for caller in under_way {
        caller.await.expect("no panic");
    }
    assert_eq!(budget.waiting(), 0);
    let in_use = in_use(&budget, &of, &key("a"));
    let served = served.lock().expect("no panic").clone();
    (served, in_use, budget.store().clock().now().as_micros())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(std::env::var("PROPTEST_CASES").map_or(200, |cases| cases.parse().expect("a number"))))]

    #[test]
    fn no_window_exceeds_the_limit_and_no_caller_overtakes(callers in vec(caller(), 1..60), max in 8_u64..=20) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let (served, in_use, end) = runtime.block_on(run(callers, max));
        let came: Vec<usize> = served.iter().map(|served| served.came).collect();
        prop_assert!(came.is_sorted(), "{came:?}");
        for (last, newest) in served.iter().enumerate() {
            let window = served[..=last].iter().filter(|served| newest.at - served.at < 1_000_000);
            let held: u64 = window.map(|served| served.spent).sum();
            prop_assert!(held <= max, "{held} of {max}");
        }
        let kept: u64 = served.iter().filter(|served| end - served.at < 1_000_000).map(|served| served.spent).sum();
        prop_assert_eq!(in_use, kept, "who has gone has spent nothing, and who was served what it kept");
    }
}
