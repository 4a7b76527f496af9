//! Three regions share one limit. Their services lease from a root service that is 40, 80 and 150 ms away.
//!
//! `cargo run --release -p tidegate-server --example regions [seconds [percent]]`. A proxy adds the distance. Each region decides
//! requests for one key, and prints how many of them waited for the network, and how long the others took. Together, the regions
//! request the given percentage of the limit. At the end, the times of all admissions show that no window held more than it.

use std::{cmp::Reverse, collections::BinaryHeap, net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use tidegate::{Cost, Decision, Key, Limit, Op, Policy, Store as _, StoreError};
use tidegate_leases::LeasedStore;
use tidegate_remote::RemoteStore;
use tidegate_server::{
    Server, Transport,
    config::{Config, SettingSources},
};
use tidegate_testbed::Proxy;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior},
};

const DISTANCES: [u64; 3] = [40, 80, 150];
const LIMIT: u64 = 6_000;
const WINDOW: Duration = Duration::from_secs(20);
/// A term of at most a tenth of the window, and of several round trips.
const TERM: Duration = Duration::from_secs(2);
/// Requests that arrive at once.
const BURST: u64 = 3;

/// The times between which a request was admitted.
type Admission = (Instant, Instant);

/// Requests that wait for the root, and when they were sent.
type Waiting = JoinSet<(Instant, Result<Decision, StoreError>)>;

/// What a region has decided.
#[derive(Debug, Default)]
struct Tally {
    admitted: Vec<Admission>,
    denied: usize,
    waited: usize,
    /// Requests that the root did not answer in time. They count as denied.
    unanswered: usize,
    /// How long the decisions took that did not wait for the network.
    local: Vec<Duration>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let number = |at, or: u64| std::env::args().nth(at).map_or(Ok(or), |text| text.parse());
    let seconds = number(1, 30).context("write the number of seconds")?;
    let percent = number(2, 80).context("write the percentage of the limit that is requested")?;
    let demand = LIMIT * percent / 100 / WINDOW.as_secs() / DISTANCES.len() as u64;
    let root = start_root().await?;
    let port = root.address(Transport::Resp).context("the root listens")?.port();
    println!("The limit is {LIMIT} in {WINDOW:?}. Three regions request {percent} % of it for {seconds} s.\n");
    let mut regions = Vec::new();
    for distance in DISTANCES {
        let proxy = Proxy::start(port);
        proxy.set_delay(Duration::from_millis(distance));
        let url = proxy.url().replace("redis://", "tidegate://");
        let remote = RemoteStore::connect(&url)?;
        tokio::time::timeout(Duration::from_secs(10), remote.ready()).await.context("the root does not answer")?;
        let store = LeasedStore::new(remote)?;
        let decided = tokio::spawn(decide(store.clone(), Duration::from_secs(seconds), demand));
        regions.push((distance, proxy, store, decided));
    }
    let mut admitted = Vec::new();
    for (distance, _proxy, store, decided) in regions {
        let mut tally = decided.await??;
        let all = tally.admitted.len() + tally.denied;
        let per_mille = (1_000 * tally.waited).div_ceil(all);
        tally.local.sort_unstable();
        let p99 = tally.local[tally.local.len() * 99 / 100];
        println!("{distance:>3} ms away: {} admitted, {} denied", tally.admitted.len(), tally.denied);
        if tally.unanswered > 0 {
            println!("    not answered in time: {}", tally.unanswered);
        }
        let share = format!("{}.{} %", per_mille / 10, per_mille % 10);
        println!("    waited for the network: {} of {all} ({share}); p99 of the others: {p99:.1?}", tally.waited);
        admitted.extend(tally.admitted);
        store.close().await;
    }
    let worst = worst_window(admitted);
    println!("\nworst window: {worst} of {LIMIT}");
    ensure!(worst <= LIMIT, "a window held {worst} admissions");
    root.stop().await;
    Ok(())
}

fn policy() -> anyhow::Result<Policy> {
    Ok(Policy::new("api", [Limit::new(LIMIT, WINDOW)?])?.with_lease(TERM)?)
}

/// Starts the root, with its store in memory.
async fn start_root() -> anyhow::Result<Server> {
    let sources = ["http", "grpc"].iter().fold(SettingSources::default(), |all, key| all.server(key, key, "off"));
    let sources = sources.server("resp", "resp", format!("{}:0", Ipv4Addr::LOCALHOST));
    let text = format!("[policies.api]\nlimits = [\"{LIMIT}/{}s\"]\n", WINDOW.as_secs());
    Ok(Server::start(Config::parse("root.toml", &text, &sources)?, sources).await?)
}

/// Sends `demand` requests a second.
async fn decide(store: LeasedStore<RemoteStore>, length: Duration, demand: u64) -> anyhow::Result<Tally> {
    let (policy, key) = (Arc::new(policy()?), Key::new("tenant-1")?);
    let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 * BURST / demand.max(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let end = Instant::now() + length;
    let mut tally = Tally::default();
    let mut waiting = Waiting::new();
    while Instant::now() < end {
        ticks.tick().await;
        tally.read(&mut waiting, false).await?;
        for _ in 0..BURST {
            let start = Instant::now();
            match store.decide_locally(Op::Check, &policy, &key, Cost::ONE) {
                Some(decision) => {
                    tally.local.push(start.elapsed());
                    tally.count(start, decision.is_allowed());
                }
                // The next request does not wait for this one.
                None => {
                    tally.waited += 1;
                    let (store, policy, key) = (store.clone(), Arc::clone(&policy), key.clone());
                    waiting.spawn(async move { (start, store.check(&policy, &key, Cost::ONE).await) });
                }
            }
        }
    }
    tally.read(&mut waiting, true).await?;
    Ok(tally)
}

impl Tally {
    fn count(&mut self, start: Instant, is_allowed: bool) {
        if is_allowed { self.admitted.push((start, Instant::now())) } else { self.denied += 1 }
    }

    /// Counts the answers that have arrived, or waits for all.
    async fn read(&mut self, waiting: &mut Waiting, all: bool) -> anyhow::Result<()> {
        while let Some(answer) = if all { waiting.join_next().await } else { waiting.try_join_next() } {
            let (start, decision) = answer?;
            match decision {
                Ok(decision) => self.count(start, decision.is_allowed()),
                Err(_) => (self.unanswered, self.denied) = (self.unanswered + 1, self.denied + 1),
            }
        }
        Ok(())
    }
}

/// The most requests that were certainly admitted in one window.
fn worst_window(mut admitted: Vec<Admission>) -> u64 {
    admitted.sort_unstable_by_key(|(_, after)| *after);
    let (mut inside, mut worst) = (BinaryHeap::new(), 0);
    for (before, after) in admitted {
        inside.push(Reverse(before));
        while inside.peek().is_some_and(|Reverse(first)| *first + WINDOW <= after) {
            inside.pop();
        }
        worst = worst.max(inside.len() as u64);
    }
    worst
}
