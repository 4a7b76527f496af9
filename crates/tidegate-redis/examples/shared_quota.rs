//! Eight regional jobs share one upstream quota: 9500 units a day, of which a search costs 100 and a lookup 1.
//!
//! A search must not be made unless it is known to be paid for: it fails closed. A lookup may: it fails open. Searches have a
//! narrower limit of their own, so that they leave something for the lookups; both limits are one decision. A day is
//! compressed to two seconds, and Redis is lost and comes back in the middle of it.
//!
//! `cargo run --example shared_quota -- redis://127.0.0.1:6379`; without a URL it starts a `redis-server` of its own.

#![allow(clippy::disallowed_methods, reason = "the jobs run on the clock, as jobs do")]

use std::{
    collections::BTreeMap,
    error::Error,
    time::{Duration, Instant},
};

use tidegate::{Cost, Decision, Key, Limit, OnStoreFailure, Policy, Reason, Spend};
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;

const REGIONS: [&str; 8] = ["US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"];
const DAY: Duration = Duration::from_secs(2);
const QUOTA: u64 = 9500;
const SEARCHES: u64 = 6000;

/// What became of the calls of one kind.
#[derive(Debug, Default)]
struct Tally {
    paid: u64,
    waited: u64,
    unpaid: u64,
    refused: u64,
}

impl Tally {
    fn note(&mut self, decision: &Decision) {
        match (decision.reason(), decision.is_degraded()) {
            (Reason::Allowed | Reason::Shadow, false) => self.paid += 1,
            (Reason::Allowed | Reason::Shadow, true) => self.unpaid += 1,
            (Reason::StoreUnavailable, _) => self.refused += 1,
            (Reason::Limited | Reason::Impossible, _) => self.waited += 1,
        }
    }
}

struct Quota {
    store: RedisStore,
    /// What the upstream meters, whoever asks.
    all: Policy,
    search: Policy,
    key: Key<'static>,
}

impl Quota {
    fn new(store: RedisStore) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self {
            store,
            all: Policy::new("youtube", [Limit::new(QUOTA, DAY)?])?,
            search: Policy::new("youtube-search", [Limit::new(SEARCHES, DAY)?])?,
            key: Key::new("yt:quota:key1")?,
        })
    }

    /// Costs 100 units of the quota and of the searches' own share, or nothing at all.
    async fn search_list(&self) -> Result<Decision, Box<dyn Error + Send + Sync>> {
        let cost = Cost::new(100)?;
        let spends = [&self.all, &self.search].map(|policy| Spend { policy, key: &self.key, cost });
        let on_failure = Some(OnStoreFailure::Closed);
        Ok(self.store.decide_all(tidegate::Op::Check, &spends, on_failure).await?.overall)
    }

    /// Costs 1 unit.
    async fn videos_list(&self) -> Decision {
        self.store.decide(tidegate::Op::Check, &self.all, &self.key, Cost::ONE, OnStoreFailure::Open).await
    }

    /// One region's job: a search, then lookups, until the time is up.
    async fn run(
        &self,
        region: usize,
        until: Instant,
    ) -> Result<[(Tally, Vec<(u64, u64)>); 2], Box<dyn Error + Send + Sync>> {
        let (mut searches, mut lookups) = ((Tally::default(), Vec::new()), (Tally::default(), Vec::new()));
        // Cron starts them a little apart.
        tokio::time::sleep(Duration::from_millis(20 * region as u64)).await;
        while Instant::now() < until {
            let found = self.search_list().await?;
            searches.0.note(&found);
            searches.1.extend(found.charged_at().map(|at| (at.as_micros(), 100)));
            for _ in 0..20 {
                let looked = self.videos_list().await;
                lookups.0.note(&looked);
                lookups.1.extend(looked.charged_at().map(|at| (at.as_micros(), 1)));
                if let Some(wait) = looked.retry_after() {
                    tokio::time::sleep(wait.min(DAY / 50)).await;
                    break;
                }
            }
            tokio::time::sleep(DAY / 200).await;
        }
        Ok([searches, lookups])
    }
}

/// The most units that any day held.
fn most_in_a_day(mut charges: Vec<(u64, u64)>) -> u64 {
    charges.sort_unstable();
    let day = u64::try_from(DAY.as_micros()).unwrap_or(u64::MAX);
    let (mut oldest, mut held, mut most) = (0, 0, 0);
    for (at, units) in &charges {
        held += units;
        while charges[oldest].0 + day <= *at {
            held -= charges[oldest].1;
            oldest += 1;
        }
        most = most.max(held);
    }
    most
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    match run().await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shared_quota: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error + Send + Sync>> {
    let given = std::env::args().nth(1);
    // Kept on disk, so that what was spent survives the outage.
    let own = if given.is_none() { Some(Server::builder().persist().start()) } else { None };
    let url = given.or_else(|| own.as_ref().map(Server::url)).unwrap_or_default();
    let store = RedisStore::connect(&url)?;
    tokio::time::timeout(Duration::from_secs(5), store.ready())
        .await
        .map_err(|_| format!("no answer from {url}: is redis there? without a URL one is started"))?;
    let quota = std::sync::Arc::new(Quota::new(store.clone())?);

    let until = Instant::now() + 3 * DAY;
    let job = |region| {
        let quota = std::sync::Arc::clone(&quota);
        tokio::spawn(async move { quota.run(region, until).await })
    };
    let jobs: Vec<_> = (0..REGIONS.len()).map(job).collect();
    if let Some(own) = &own {
        tokio::time::sleep(DAY).await;
        own.kill();
        tokio::time::sleep(DAY / 4).await;
        own.restart();
    }

    println!(
        "{QUOTA} units in any {DAY:?}, of which searches at most {SEARCHES}; {} jobs, three days\n",
        REGIONS.len()
    );
    println!("{:8}{:>26}{:>38}", "", "search.list (100, closed)", "videos.list (1, open)");
    println!(
        "{:8}{:>8}{:>8}{:>8}{:>16}{:>8}{:>8}",
        "region", "paid", "limited", "refused", "paid", "limited", "unpaid"
    );
    let mut charges: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for (region, job) in REGIONS.into_iter().zip(jobs) {
        let [searches, lookups] = job.await??;
        let ((s, spent), (v, looked)) = (searches, lookups);
        println!("{region:8}{:>8}{:>8}{:>8}{:>16}{:>8}{:>8}", s.paid, s.waited, s.refused, v.paid, v.waited, v.unpaid);
        charges.entry("searches").or_default().extend(&spent);
        charges.entry("all").or_default().extend(spent.into_iter().chain(looked));
    }
    let [all, searches] = ["all", "searches"].map(|of| most_in_a_day(charges.remove(of).unwrap_or_default()));
    println!("\nthe most that any day held: {all} of {QUOTA} units, {searches} of {SEARCHES} in searches");
    let stats = store.stats();
    println!("without redis: {} refused, {} let through", stats.degraded_closed, stats.degraded_open);
    if all > QUOTA || searches > SEARCHES {
        return Err("more was spent than the quota allows".into());
    }
    Ok(())
}
