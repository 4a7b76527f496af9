//! Decisions per second: ours and a rival's script, rounds interleaved, medians reported.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::try_join_all;
use tidegate::{Algorithm, Limit, Policy};
use tidegate_redis::RedisStore;
use tidegate_testbed::{Cluster, Server};

use super::caller::{CallMethod, Caller};
use super::report::{ThroughputRow, ThroughputSummary};
use super::rival::{LIMIT, Rival, WINDOW};
use super::round::Round;
use super::servers::RedisServers;
use super::{Options, RedisBenchmark};
use crate::measure::{as_f64, median};
use crate::progress;
use crate::workload::{self, Scenario, Spread};

/// The numbers of keys: many that are mostly allowed, and few that are mostly denied.
const KEYS: [usize; 2] = [100_000, 1_000];
const TASKS: [usize; 2] = [256, 32];
/// Keys drawn beforehand; tasks begin anywhere in this sequence.
const DRAWN: usize = 400_000;
const CONNECTIONS: usize = 4;
const PIPELINES: [usize; 3] = [16, 64, 128];
/// Short rounds that find a rival's fastest call method and warm up.
const TRIALS: usize = 3;

pub(super) async fn run(benchmark: RedisBenchmark, options: &Options) -> Result<Vec<ThroughputRow>> {
    let rival = Arc::new(Rival::of(benchmark));
    let (servers, wanted) = match benchmark {
        RedisBenchmark::Cluster => (RedisServers::Cluster(Cluster::start(3, 0)), 1.0),
        _ => (RedisServers::Server(Server::start()), 2.0),
    };
    let (algorithm, name) = match benchmark {
        RedisBenchmark::Counter => (Algorithm::SlidingCounter, "sliding_counter"),
        _ => (Algorithm::SlidingLog, "sliding_log"),
    };
    servers.load(&rival);
    let policy = Policy::new("bench", [Limit::new(LIMIT, WINDOW)?])?.with_algorithm(algorithm);
    let policy = Arc::new(policy);
    let mut rows = Vec::new();
    for count in KEYS {
        let order = workload::shuffled(count);
        let drawn = Scenario { threads: 1, spread: Spread::Uniform }.sequences(&order, DRAWN).remove(0);
        let keys = Arc::new(drawn);
        for tasks in TASKS {
            // A cluster of three servers is slow on two cores, so it gets one number of tasks.
            if benchmark == RedisBenchmark::Cluster && tasks != TASKS[0] {
                continue;
            }
            let comparison = Comparison { servers: &servers, keys: &keys, tasks, options };
            servers.flush();
            progress::show(&format!("{}, {} {tasks} tasks, {count} keys", servers.name(), rival.name));
            let store = servers.store().await?;
            let ours = Caller::Ours { store: store.clone(), policy: Arc::clone(&policy) };
            let (theirs, method, tried) = comparison.fastest(&ours, &rival).await?;
            if is_hot(count) {
                comparison.exhaust(&ours).await?;
                comparison.exhaust(&theirs).await?;
            }
            let before = store.stats();
            let [ours, theirs] = comparison.rounds([&ours, &theirs]).await?;
            let after = store.stats();
            ensure_made_by_redis(&store)?;
            rows.push(ThroughputRow {
                servers: servers.name(),
                algorithm: name,
                rival: rival.name,
                way: method.to_string(),
                keys: count,
                tasks,
                batch: as_count(after.batched - before.batched) / as_count(after.calls - before.calls),
                ratio: ours.per_second / theirs.per_second,
                ours,
                theirs,
                wanted,
                tried,
            });
        }
    }
    Ok(rows)
}

/// Whether a round sends far more requests for each key than the limit allows.
fn is_hot(keys: usize) -> bool {
    keys <= 1_000
}

fn ensure_made_by_redis(store: &RedisStore) -> Result<()> {
    let stats = store.stats();
    let degraded = stats.degraded_open + stats.degraded_closed + stats.degraded_local;
    ensure!(degraded == 0, "{degraded} decisions were made without Redis: {:?}", stats.errors);
    Ok(())
}

fn as_count(count: u64) -> f64 {
    as_f64(usize::try_from(count).unwrap_or(usize::MAX))
}

/// The settings of one comparison of our store with a rival.
pub(super) struct Comparison<'a> {
    pub(super) servers: &'a RedisServers,
    pub(super) keys: &'a Arc<Vec<String>>,
    /// The number of concurrent decisions.
    pub(super) tasks: usize,
    options: &'a Options,
}

impl Comparison<'_> {
    /// The rival with its fastest call method, and the rates of all methods.
    async fn fastest(&self, ours: &Caller, rival: &Arc<Rival>) -> Result<(Caller, CallMethod, Vec<(String, f64)>)> {
        let mut methods = vec![CallMethod::Tasks { connections: 1 }, CallMethod::Tasks { connections: CONNECTIONS }];
        // In a cluster, a pipeline must stay in one slot, so it would have one call.
        if matches!(self.servers, RedisServers::Server(_)) {
            let fitting = PIPELINES.into_iter().filter(|of| *of <= self.tasks);
            methods.extend(fitting.map(|of| CallMethod::Pipelines { of }));
        }
        let mut callers = Vec::new();
        for method in methods {
            let count = if let CallMethod::Tasks { connections } = method { connections } else { 1 };
            let connections = try_join_all((0..count).map(|_| self.servers.connect_rival())).await?;
            callers.push((method, Caller::Theirs { rival: Arc::clone(rival), connections, method }));
        }
        let mut rates = vec![Vec::new(); callers.len()];
        let length = self.trial();
        for _ in 0..TRIALS {
            self.round(ours, length).await?;
            for ((_, caller), rates) in callers.iter().zip(&mut rates) {
                rates.push(self.round(caller, length).await?.per_second());
            }
        }
        let rates: Vec<_> = rates.into_iter().map(median).collect();
        let tried = callers.iter().zip(&rates).map(|((method, _), rate)| (method.to_string(), *rate)).collect();
        let best = callers.into_iter().zip(rates).max_by(|a, b| a.1.total_cmp(&b.1));
        let ((method, caller), _) = best.context("there is a call method")?;
        Ok((caller, method, tried))
    }

    /// Decides until nearly all requests are denied, so that all rounds start in the same state.
    async fn exhaust(&self, caller: &Caller) -> Result<()> {
        let length = self.trial();
        for _ in 0..200 {
            if self.round(caller, length).await?.allowed() < 0.05 {
                return Ok(());
            }
        }
        bail!("most requests for exhausted keys are still admitted")
    }

    /// The length of a short round.
    fn trial(&self) -> Duration {
        self.options.round().mul_f64(0.1).max(Duration::from_millis(20))
    }

    async fn rounds(&self, callers: [&Caller; 2]) -> Result<[ThroughputSummary; 2]> {
        let mut rounds: [Vec<Round>; 2] = Default::default();
        for _ in 0..self.options.rounds {
            for (caller, rounds) in callers.iter().zip(&mut rounds) {
                rounds.push(self.round(caller, self.options.round()).await?);
            }
        }
        Ok(rounds.map(|rounds| ThroughputSummary::of(&rounds)))
    }
}
