//! The caller's side. tokio's clock is paused: it advances when all tasks wait, so that the tests do not.

mod cancelling;
mod layer;
mod pausing;
mod random_callers;
mod reserving;
mod server_wait;
mod settling;
mod shared;
mod waiting;

use std::{sync::Arc, time::Duration};

use tidegate::{Clock, Cost, Key, Limiter, MemoryStore, Policy, Timestamp};
use tidegate_tower::caller::{AcquireError, Budget};
use tokio::{task::JoinHandle, time::Instant};

use crate::test_server::policy;

/// The time at which every test starts.
const BEGAN: Timestamp = Timestamp::from_micros(1_745_000_000_000_000);

/// A limiter with tokio's clock.
fn limiter() -> Arc<Limiter> {
    let began = Instant::now();
    let clock = Clock::from_fn(move || BEGAN.after(began.elapsed()));
    Arc::new(Limiter::new(MemoryStore::default()).with_clock(clock))
}

fn budget(limit: &str) -> Budget {
    Budget::new(policy("upstream", &[limit])).in_store(limiter())
}

fn key(name: &'static str) -> Key<'static> {
    Key::new(name).expect("a key")
}

fn cost(units: u64) -> Cost {
    Cost::new(units).expect("a cost")
}

/// The units in use of a budget with one policy.
fn in_use(budget: &Budget, policy: &Policy, key: &Key<'_>) -> u64 {
    budget.store().inspect(policy, key).map_or(0, |state| state.limits[0].used)
}

/// Callers that queue for 1 unit of `a`.
async fn queue(budget: &Budget, members: usize) -> Vec<JoinHandle<Result<(), AcquireError>>> {
    let member = |_| {
        let budget = budget.clone();
        tokio::spawn(async move { budget.acquire(&key("a"), cost(1)).await.map(drop) })
    };
    let queue = (0..members).map(member).collect();
    tokio::task::yield_now().await;
    queue
}

/// The resolution of tokio's timers. A sleep may end this much late.
const GRAIN: Duration = Duration::from_millis(1);
