//! Decisions per second: ours and a rival's script, rounds interleaved, medians reported.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tidegate::{Algorithm, Limit, Policy};
use tidegate_redis::RedisStore;

use super::caller::{Caller, Way};
use super::report::{Flow, ThroughputRow};
use super::rival::{LIMIT, Rival, WINDOW};
use super::round::{Round, round};
use super::site::Site;
use super::{Options, Part};
use crate::measure::{as_f64, median};
use crate::progress::Progress;
use crate::workload::{self, Scenario, Spread};

/// Keys that are asked for: many that are mostly allowed, and few that are mostly denied.
const KEYS: [usize; 2] = [100_000, 1_000];
const TASKS: [usize; 2] = [256, 32];
/// Keys drawn beforehand; tasks begin anywhere in this sequence.
const DRAWN: usize = 400_000;
const CONNECTIONS: usize = 4;
const PIPELINES: [usize; 3] = [16, 64, 128];
/// Short rounds to find a rival's fastest way, and to warm up.
const TRIALS: usize = 3;

pub(super) async fn run(part: Part, options: &Options, progress: &Progress) -> Result<Vec<ThroughputRow>> {
    let rival = Arc::new(Rival::of(part));
    let (site, algorithm, wanted) = match part {
        Part::Cluster => (Site::cluster(), Algorithm::SlidingLog, 1.0),
        Part::Counter => (Site::server(), Algorithm::SlidingCounter, 2.0),
        _ => (Site::server(), Algorithm::SlidingLog, 2.0),
    };
    site.load(&rival);
    let policy = Policy::new("bench", [Limit::new(LIMIT, WINDOW)?])?.with_algorithm(algorithm);
    let policy = Arc::new(policy);
    let mut rows = Vec::new();
    for count in KEYS {
        let order = workload::shuffled(count);
        let drawn = Scenario { threads: 1, spread: Spread::Uniform }.sequences(&order, DRAWN).remove(0);
        let keys = Arc::new(drawn);
        for tasks in TASKS {
            // A cluster takes long enough with its three servers on two cores.
            if part == Part::Cluster && tasks != TASKS[0] {
                continue;
            }
            let match_up = Match { site: &site, keys: &keys, tasks, options };
            site.flush();
            progress.say(&format!("{}, {} by {tasks} tasks over {count} keys", site.name(), rival.name));
            let store = site.store().await?;
            let ours = Caller::Ours { store: store.clone(), policy: Arc::clone(&policy) };
            let (theirs, way, tried) = match_up.fastest(&ours, &rival).await?;
            if is_hot(count) {
                match_up.exhaust(&ours).await?;
                match_up.exhaust(&theirs).await?;
            }
            let before = store.stats();
            let (ours, theirs) = match_up.rounds(&ours, &theirs).await?;
            let after = store.stats();
            ensure_made_by_redis(&store)?;
            let row = ThroughputRow {
                site: site.name(),
                algorithm: if part == Part::Counter { "sliding_counter" } else { "sliding_log" },
                rival: rival.name,
                way: way.to_string(),
                keys: count,
                tasks,
                batch: as_count(after.batched - before.batched) / as_count(after.calls - before.calls),
                ratio: ours.per_second / theirs.per_second,
                ours,
                theirs,
                wanted,
                tried,
            };
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Whether a round asks for each key far more often than the limit allows.
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

/// What is the same for both.
struct Match<'a> {
    site: &'a Site,
    keys: &'a Arc<Vec<String>>,
    tasks: usize,
    options: &'a Options,
}

impl Match<'_> {
    /// The rival called in its fastest way, and what all ways gave.
    async fn fastest(&self, ours: &Caller, rival: &Arc<Rival>) -> Result<(Caller, Way, Vec<(String, f64)>)> {
        let mut ways = vec![Way::Tasks { connections: 1 }, Way::Tasks { connections: CONNECTIONS }];
        // A pipeline in a cluster has to stay in one slot, so it would be of one call.
        if matches!(self.site, Site::Server(_)) {
            let fitting = PIPELINES.into_iter().filter(|of| *of <= self.tasks);
            ways.extend(fitting.map(|of| Way::Pipelines { of }));
        }
        let mut callers = Vec::new();
        for way in ways {
            let connections = if let Way::Tasks { connections } = way { connections } else { 1 };
            let links = self.site.links(connections).await?;
            callers.push((way, Caller::Theirs { rival: Arc::clone(rival), links, way }));
        }
        let mut speeds = vec![Vec::new(); callers.len()];
        let length = self.trial();
        for _ in 0..TRIALS {
            self.round(ours, length).await?;
            for ((_, caller), speeds) in callers.iter().zip(&mut speeds) {
                speeds.push(self.round(caller, length).await?.per_second());
            }
        }
        let speeds: Vec<_> = speeds.iter().filter_map(|speeds| median(speeds)).collect();
        let tried = callers.iter().zip(&speeds).map(|((way, _), speed)| (way.to_string(), *speed)).collect();
        let best = callers.into_iter().zip(speeds).max_by(|a, b| a.1.total_cmp(&b.1));
        let ((way, caller), _) = best.context("there is a way")?;
        Ok((caller, way, tried))
    }

    /// Asks until hardly anything passes any more, so that every round finds the same.
    async fn exhaust(&self, caller: &Caller) -> Result<()> {
        let length = self.trial();
        for _ in 0..200 {
            if self.round(caller, length).await?.allowed() < 0.05 {
                return Ok(());
            }
        }
        bail!("keys that everybody asks for are still let through")
    }

    /// How long a short round takes.
    fn trial(&self) -> Duration {
        self.options.round.mul_f64(0.1).max(Duration::from_millis(20))
    }

    async fn rounds(&self, ours: &Caller, theirs: &Caller) -> Result<(Flow, Flow)> {
        let (mut our_rounds, mut their_rounds) = (Vec::new(), Vec::new());
        for _ in 0..self.options.rounds {
            our_rounds.push(self.round(ours, self.options.round).await?);
            their_rounds.push(self.round(theirs, self.options.round).await?);
        }
        Flow::of(&our_rounds).zip(Flow::of(&their_rounds)).context("there is a round")
    }

    async fn round(&self, caller: &Caller, length: Duration) -> Result<Round> {
        round(caller, self.site, self.keys, self.tasks, length).await
    }
}
