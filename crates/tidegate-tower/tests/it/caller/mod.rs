//! The caller's side. Time is tokio's, and paused: it leaps when everyone waits, so that nobody here does.

mod cancelling;
mod layer;
mod obeying;
mod settling;
mod shared;
mod storm;
mod waiting;
mod word;

use std::{sync::Arc, time::Duration};

use tidegate::{Clock, Cost, Key, Limiter, MemoryStore, Policy, Timestamp};
use tidegate_tower::caller::{AcquireError, Budget};
use tokio::{task::JoinHandle, time::Instant};

use crate::site::policy;

/// When the tests' time begins.
const BEGAN: Timestamp = Timestamp::from_micros(1_745_000_000_000_000);

/// A limiter on tokio's time.
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

/// What is in use of a budget of one policy.
fn in_use(budget: &Budget, policy: &Policy, key: &Key<'_>) -> u64 {
    budget.store().inspect(policy, key).map_or(0, |state| state.limits[0].used)
}

/// So many who wait for 1 unit of `a`, in line one after the other.
async fn line(budget: &Budget, members: usize) -> Vec<JoinHandle<Result<(), AcquireError>>> {
    let member = |_| {
        let budget = budget.clone();
        tokio::spawn(async move { budget.acquire(&key("a"), cost(1)).await.map(drop) })
    };
    let line = (0..members).map(member).collect();
    tokio::task::yield_now().await;
    line
}

/// Timers are read in milliseconds, and never early: so much later than a wait its end may be noticed.
const GRAIN: Duration = Duration::from_millis(1);
