//! The cost of a decision while Redis is down and the breaker is open, compared with a decision in memory.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Result, ensure};
use tidegate::{Cost, Key, Limit, Limiter, MemoryStore, OnStoreFailure, Policy, Share, Store as _};
use tidegate_redis::{BreakerState, RedisStore};
use tidegate_testbed::Server;

use super::Options;
use super::report::OutageRow;
use super::rival::{LIMIT, WINDOW};
use super::servers::connected;
use crate::measure::{as_f64, median};
use crate::progress;
use crate::stopwatch::{Deadline, now};
use crate::workload::{self, Scenario, Spread};

const DECISIONS: usize = 1_000_000;
const KEYS: [usize; 2] = [1, 100_000];
const WANTED: f64 = 2.0;

pub(super) async fn run(options: &Options) -> Result<Vec<OutageRow>> {
    let choices = [
        ("open", OnStoreFailure::Open),
        ("closed", OnStoreFailure::Closed),
        ("local", OnStoreFailure::Local(Share::ALL)),
        ("local:0.5", OnStoreFailure::Local(Share::new(0.5)?)),
    ];
    let mut rows = Vec::new();
    for count in KEYS {
        let order = workload::shuffled(count);
        let scenario = Scenario { threads: 1, spread: Spread::Uniform };
        let keys = scenario.sequences(&order, options.size.of(DECISIONS)).remove(0);
        for (name, choice) in choices {
            progress::show(&format!("without Redis, {name}, {count} keys"));
            let policy = Policy::new("bench", [Limit::new(LIMIT, WINDOW)?])?.with_on_store_failure(choice);
            let store = store_without_server(&policy).await?;
            let limiter = Limiter::new(MemoryStore::default());
            // Both have a state of every key before the first round.
            in_memory(&limiter, &policy, &keys)?;
            without_redis(&store, &policy, &keys).await?;
            let (mut ours, mut memory) = (Vec::new(), Vec::new());
            for _ in 0..options.rounds {
                memory.push(in_memory(&limiter, &policy, &keys)?);
                ours.push(without_redis(&store, &policy, &keys).await?);
            }
            let (ours_ns, memory_ns) = (median(ours), median(memory));
            let ratio = ours_ns / memory_ns;
            rows.push(OutageRow { on_store_failure: name, keys: count, ours_ns, memory_ns, ratio, wanted: WANTED });
        }
    }
    Ok(rows)
}

/// A store that has detected that its server was killed.
async fn store_without_server(policy: &Policy) -> Result<RedisStore> {
    let server = Server::start();
    let store = connected(RedisStore::builder(&server.url())).await?;
    server.kill();
    let deadline = Deadline::after(Duration::from_secs(10));
    while store.breakers().iter().any(|(_, state)| *state == BreakerState::Closed) {
        ensure!(!deadline.has_passed(), "the breaker does not open");
        // Only a request detects that the server is down.
        let _ = store.check(policy, &Key::new("any")?, Cost::ONE).await?;
    }
    Ok(store)
}

/// Nanoseconds of a decision.
fn in_memory(limiter: &Limiter, policy: &Policy, keys: &[String]) -> Result<f64> {
    let began = now();
    for key in keys {
        let _ = black_box(limiter.check(policy, &Key::new(key)?, Cost::ONE));
    }
    Ok((now() - began).as_secs_f64() * 1e9 / as_f64(keys.len()))
}

/// Nanoseconds of a decision, none of which Redis has made.
async fn without_redis(store: &RedisStore, policy: &Policy, keys: &[String]) -> Result<f64> {
    let mut degraded = 0;
    let began = now();
    for key in keys {
        let decision = store.check(policy, &Key::new(key)?, Cost::ONE).await?;
        degraded += usize::from(black_box(decision).is_degraded());
    }
    let seconds = (now() - began).as_secs_f64();
    ensure!(degraded == keys.len(), "Redis made a decision while it was down");
    Ok(seconds * 1e9 / as_f64(keys.len()))
}
