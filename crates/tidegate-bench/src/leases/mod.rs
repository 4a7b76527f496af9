//! Compares nodes that lease units of a Redis with nodes that ask it for each decision.
//!
//! Both use the same server, the same client and the same tasks in one process. Each node has its own connections and its own
//! leases. Before each measurement, the nodes decide for two terms, so that they hold the leases of a running service.

mod report;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use tidegate::{AnyStore, Cost, Key, Limit, Policy, Store as _};
use tidegate_leases::LeasedStore;
use tidegate_testbed::Server;
use tokio::task::JoinSet;

use crate::machine::Machine;
use crate::measure::{as_f64, median};
use crate::options::Size;
use crate::progress;
use crate::redis_store::{RedisServers, version};
use crate::stopwatch::now;
use crate::tally::Tally;
use crate::workload::{self, Scenario, Spread};

pub use report::LeasesReport;

const NODES: usize = 2;
const TASKS_OF_NODE: usize = 128;
/// A few round trips; a tenth of the window is 6 seconds.
const TERM: Duration = Duration::from_millis(200);
const LONGER_TERMS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// Keys drawn beforehand; tasks begin anywhere in this sequence.
const DRAWN: usize = 400_000;
/// The number of decisions of a task between two checks of the time.
const DECISIONS: usize = 64;

/// Options of the command line.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Milliseconds of a round
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u16).range(10..))]
    round: u16,
    #[command(flatten)]
    size: Size,
}

/// A comparison: a number of keys, their distribution, a limit, and the term of the leases.
#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    keys: usize,
    spread: Spread,
    limit: Limit,
    /// The term of the leases.
    term: Duration,
    /// The least number of decisions per second, relative to nodes without leases.
    wanted: f64,
    /// The greatest processor time of Redis for a decision, relative to nodes without leases.
    wanted_cpu: Option<f64>,
}

/// The result of a comparison.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub workload: &'static str,
    /// The term of the leases, in milliseconds.
    pub term_ms: u128,
    /// Decisions per second without leases.
    pub plain: f64,
    /// Decisions per second with leases.
    pub leased: f64,
    /// The median of the ratios of each round.
    pub ratio: f64,
    /// The least ratio that is wanted.
    pub wanted: f64,
    /// The share of admitted requests, without leases and with them.
    pub allowed: [f64; 2],
    /// Processor time of Redis for a decision with leases, divided by that without.
    pub cpu_ratio: f64,
    /// The greatest such ratio that is wanted.
    pub wanted_cpu: Option<f64>,
}

/// Measures leases.
///
/// # Errors
/// If a measurement is invalid, for example because Redis did not make a decision.
///
/// # Panics
/// If a server can't be started, or does not reply.
pub fn run(options: &Options) -> Result<LeasesReport> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("no runtime")?;
    let limit = workload::limit;
    let mut workloads = vec![
        Workload {
            name: "one hot key, all allowed",
            keys: 1,
            spread: Spread::HotKey,
            limit: limit(1_000_000_000, 60),
            term: TERM,
            wanted: 20.0,
            wanted_cpu: None,
        },
        Workload {
            name: "one hot key, nearly all denied",
            keys: 1,
            spread: Spread::HotKey,
            limit: limit(10_000, 60),
            term: TERM,
            wanted: 20.0,
            wanted_cpu: None,
        },
        Workload {
            name: "100k keys, Zipf",
            keys: 100_000,
            spread: Spread::Zipf,
            limit: limit(10_000_000, 60),
            term: TERM,
            wanted: 2.0,
            wanted_cpu: Some(0.4),
        },
        Workload {
            name: "100k keys, uniform",
            keys: 100_000,
            spread: Spread::Uniform,
            limit: limit(10_000_000, 60),
            term: TERM,
            wanted: 0.97,
            wanted_cpu: None,
        },
    ];
    // With a longer term, more keys are requested often enough for a lease.
    let longer = LONGER_TERMS.map(|term| Workload { term, ..workloads[2] });
    workloads.extend(longer);
    workloads.push(Workload { term: LONGER_TERMS[1], ..workloads[3] });
    let mut rows = Vec::new();
    for workload in workloads {
        progress::show(workload.name);
        rows.push(runtime.block_on(compare(&workload, options))?);
    }
    Ok(LeasesReport { machine: Machine::this(), redis: version(), rounds: options.rounds, rows })
}

/// The phases of a round.
const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const STOPPING: u8 = 2;

/// What is measured in a round.
struct Round {
    per_second: f64,
    allowed: f64,
    /// Processor time of Redis for a decision.
    server_seconds: f64,
}

async fn compare(workload: &Workload, options: &Options) -> Result<Row> {
    let servers = RedisServers::Server(Server::start());
    let order = workload::shuffled(workload.keys);
    let drawn = Scenario { threads: 1, spread: workload.spread }.sequences(&order, DRAWN).remove(0);
    let keys = Arc::new(drawn);
    let policy = |name| Policy::new(name, [workload.limit]).context("a policy");
    let (plain_policy, leased_policy) = (policy("plain")?, policy("leased")?.with_lease(workload.term)?);
    let (mut plain, mut leased) = (Vec::new(), Vec::new());
    for _ in 0..NODES {
        plain.push(AnyStore::new(servers.store().await?));
        leased.push(AnyStore::new(LeasedStore::new(servers.store().await?)?));
    }
    let length = Duration::from_millis(options.round.into()).max(workload.term);
    let length = if options.size.quick { length / 10 } else { length };
    let lengths = (2 * workload.term, length);
    let nodes = [(&plain, Arc::new(plain_policy)), (&leased, Arc::new(leased_policy))];
    // Also opens the connections and creates the keys.
    for (stores, policy) in &nodes {
        round(&servers, stores, policy, &keys, lengths).await?;
    }
    let mut rounds: [Vec<Round>; 2] = Default::default();
    for _ in 0..options.rounds {
        for ((stores, policy), rounds) in nodes.iter().zip(&mut rounds) {
            rounds.push(round(&servers, stores, policy, &keys, lengths).await?);
        }
    }
    let of = |rounds: &[Round], value: fn(&Round) -> f64| median(rounds.iter().map(value));
    let ratios = |value: fn(&Round) -> f64| {
        median(rounds[0].iter().zip(&rounds[1]).map(|(plain, leased)| value(leased) / value(plain)))
    };
    Ok(Row {
        workload: workload.name,
        term_ms: workload.term.as_millis(),
        plain: of(&rounds[0], |round| round.per_second),
        leased: of(&rounds[1], |round| round.per_second),
        ratio: ratios(|round| round.per_second),
        wanted: workload.wanted,
        allowed: [of(&rounds[0], |round| round.allowed), of(&rounds[1], |round| round.allowed)],
        cpu_ratio: ratios(|round| round.server_seconds),
        wanted_cpu: workload.wanted_cpu,
    })
}

async fn round(
    servers: &RedisServers,
    stores: &[AnyStore],
    policy: &Arc<Policy>,
    keys: &Arc<Vec<String>>,
    (warm_up, length): (Duration, Duration),
) -> Result<Round> {
    let phase = Arc::new(AtomicU8::new(WARMING_UP));
    let mut running = JoinSet::new();
    for store in stores {
        for _ in 0..TASKS_OF_NODE {
            let at = rand::random_range(0..keys.len());
            running.spawn(decide(store.clone(), Arc::clone(policy), Arc::clone(keys), at, Arc::clone(&phase)));
        }
    }
    tokio::time::sleep(warm_up).await;
    let (before, start) = (servers.usage(), now());
    phase.store(MEASURING, Relaxed);
    tokio::time::sleep(length).await;
    phase.store(STOPPING, Relaxed);
    let tallies = running.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    let seconds = (now() - start).as_secs_f64();
    let after = servers.usage();
    let tally: Tally = tallies.into_iter().sum();
    let decisions = as_f64(tally.decisions);
    Ok(Round {
        per_second: decisions / seconds,
        allowed: as_f64(tally.allowed) / decisions,
        server_seconds: (after.processor - before.processor) / decisions,
    })
}

async fn decide(
    store: AnyStore,
    policy: Arc<Policy>,
    keys: Arc<Vec<String>>,
    mut at: usize,
    phase: Arc<AtomicU8>,
) -> Result<Tally> {
    let (mut tally, mut is_measured) = (Tally::default(), false);
    loop {
        match phase.load(Relaxed) {
            STOPPING => return Ok(tally),
            MEASURING if !is_measured => (tally, is_measured) = (Tally::default(), true),
            _ => {}
        }
        for _ in 0..DECISIONS {
            let decision = store.check(&policy, &Key::new(&keys[at])?, Cost::ONE).await?;
            ensure!(!decision.is_degraded(), "Redis did not make a decision: {decision:?}");
            tally.decisions += 1;
            tally.allowed += usize::from(decision.is_allowed());
            at = if at + 1 == keys.len() { 0 } else { at + 1 };
        }
        // Decisions by leases never wait, so other tasks would not run.
        tokio::task::yield_now().await;
    }
}
