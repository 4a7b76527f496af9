//! Eight regional jobs share one upstream quota of 9500 units a day. A search costs 100 units, and a lookup costs 1.
//!
//! If Redis fails, searches fail closed and lookups fail open. In production each job is a separate process. Here each
//! job has its own connection to Redis. A day takes two seconds, and Redis fails and returns during the second day.
//!
//! `cargo run -p tidegate-tower --example regional_jobs -- redis://127.0.0.1:6379`. Without a URL it starts its own
//! `redis-server`.

use std::time::Duration;

use anyhow::Context as _;
use tidegate::{Cost, Key, Limit, OnStoreFailure, Policy};
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;
use tidegate_tower::caller::{AcquireError, Budget, Operation};
use tokio::time::Instant;

const REGIONS: [&str; 8] = ["US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"];
const DAY: Duration = Duration::from_secs(2);
const QUOTA: u64 = 9500;

/// The budget of a job. All jobs share its state.
async fn quota(url: &str) -> anyhow::Result<Budget<RedisStore>> {
    let store = RedisStore::connect(url)?;
    tokio::time::timeout(Duration::from_secs(5), store.ready())
        .await
        .with_context(|| format!("no answer from {url}: start Redis there, or omit the URL"))?;
    let search = Operation::new(Cost::new(100)?).on_store_failure(OnStoreFailure::Closed);
    let lookup = Operation::new(Cost::ONE).on_store_failure(OnStoreFailure::Open);
    let quota = Budget::new(Policy::new("youtube", [Limit::new(QUOTA, DAY)?])?).in_store(store);
    Ok(quota.operation("search.list", search).operation("videos.list", lookup).with_max_wait(DAY / 20))
}

/// The results of a job's calls.
#[derive(Debug, Default)]
struct Tally {
    searches: u64,
    lookups: u64,
    unpaid_lookups: u64,
    rejected_searches: u64,
    over_budget: u64,
    /// The times and units of all charges.
    charges: Vec<(u64, u64)>,
}

impl Tally {
    /// Makes a call, if the budget allows it.
    async fn call(&mut self, quota: &Budget<RedisStore>, operation: &str) -> anyhow::Result<()> {
        let key = Key::new("yt:quota:key1")?;
        let units = if operation == "search.list" { 100 } else { 1 };
        match quota.acquire_operation(&key, operation).await {
            Ok(permit) => {
                // A degraded call was charged in this process, if at all: the shared quota does not know of it.
                let charged_at = permit.decision().charged_at().filter(|_| !permit.decision().is_degraded());
                let paid = charged_at.map(|at| (at.as_micros(), units));
                let count = match (units, paid) {
                    (100, _) => &mut self.searches,
                    (_, Some(_)) => &mut self.lookups,
                    (_, None) => &mut self.unpaid_lookups,
                };
                *count += 1;
                self.charges.extend(paid);
            }
            Err(AcquireError::StoreUnavailable) => self.rejected_searches += 1,
            Err(AcquireError::TooLate { .. } | AcquireError::TimedOut) => self.over_budget += 1,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// The job of one region: searches and lookups until the time is up.
async fn job(quota: Budget<RedisStore>, until: Instant) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    while Instant::now() < until {
        tally.call(&quota, "search.list").await?;
        for _ in 0..20 {
            tally.call(&quota, "videos.list").await?;
        }
        tokio::time::sleep(DAY / 200).await;
    }
    Ok(tally)
}

/// The maximum number of units in any day.
fn max_per_day(mut charges: Vec<(u64, u64)>) -> u64 {
    charges.sort_unstable();
    let day = u64::try_from(DAY.as_micros()).unwrap_or(u64::MAX);
    let (mut oldest, mut spent, mut max) = (0, 0, 0);
    for (at, units) in &charges {
        spent += units;
        while charges[oldest].0 + day <= *at {
            spent -= charges[oldest].1;
            oldest += 1;
        }
        max = max.max(spent);
    }
    max
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let argument = std::env::args().nth(1);
    // The state is on disk, so that it survives the outage.
    let own = if argument.is_none() { Some(Server::builder().persist().start()) } else { None };
    let url = argument.or_else(|| own.as_ref().map(Server::url)).unwrap_or_default();

    let until = Instant::now() + 3 * DAY;
    let mut jobs = Vec::new();
    for _ in REGIONS {
        jobs.push(tokio::spawn(job(quota(&url).await?, until)));
    }
    if let Some(own) = &own {
        tokio::time::sleep(DAY).await;
        own.kill();
        tokio::time::sleep(DAY / 4).await;
        own.restart();
    }

    println!("{QUOTA} units in any {DAY:?}; {} jobs, three days, an outage in the second\n", REGIONS.len());
    println!("region  searches  rejected   lookups    unpaid   over budget");
    let mut charges = Vec::new();
    for (region, job) in REGIONS.into_iter().zip(jobs) {
        let tally = job.await??;
        let Tally { searches, lookups, unpaid_lookups, rejected_searches, over_budget, .. } = tally;
        println!("{region:6}{searches:>10}{rejected_searches:>10}{lookups:>10}{unpaid_lookups:>10}{over_budget:>14}");
        charges.extend(tally.charges);
    }
    let max = max_per_day(charges);
    println!("\nmaximum in any day: {max} of {QUOTA} units");
    anyhow::ensure!(max <= QUOTA, "the quota was exceeded");
    Ok(())
}
