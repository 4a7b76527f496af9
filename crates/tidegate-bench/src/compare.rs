//! The comparison: every contender on every workload, rounds interleaved, medians reported.
//!
//! Round one of all contenders comes before round two of any, so that other work of the machine
//! affects all of them. State is kept between rounds and between the scenarios of a group.

use std::time::Duration;

use anyhow::Result;
use clap::Parser;

use crate::contenders::{self, Contender, ContenderEntry};
use crate::heap;
use crate::machine::Machine;
use crate::measure::{self, Round};
use crate::options::Size;
use crate::progress;
use crate::report::{GroupReport, Report, RoundSummary, Row, ScenarioReport};
use crate::workload::{self, Group, Scenario};

const MANY_KEYS: usize = 1_000_000;
const DECISIONS: usize = 500_000;

/// Options of the command line.
#[derive(Clone, Debug, Parser)]
pub struct Options {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: u16,
    /// Projects to measure, for example governor,rate-net; our rows to compare with are always added
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    #[command(flatten)]
    pub(crate) size: Size,
    /// Maximum seconds of a contender for one warm-up or one round
    #[arg(long, default_value_t = 30)]
    pub bound: u64,
}

impl Options {
    /// The number of keys in scenarios with many keys.
    pub(crate) fn many_keys(&self) -> usize {
        self.size.of(MANY_KEYS)
    }

    /// Decisions per round, of all threads together.
    fn decisions(&self) -> usize {
        self.size.of(DECISIONS)
    }

    /// The maximum time of a contender for one warm-up or one round.
    pub(crate) fn bound(&self) -> Duration {
        Duration::from_secs(self.bound)
    }
}

/// Runs the comparison.
///
/// # Errors
/// If a project is unknown, or the heap could not be measured.
pub fn run(options: &Options) -> Result<Report> {
    let entries = contenders::select(&options.only)?;
    // First, because it can fail.
    progress::show("heap bytes");
    let heap = heap::measure_in_own_process(options)?;
    let groups = workload::groups(options.many_keys());
    Ok(Report {
        machine: Machine::this(),
        rounds: options.rounds,
        decisions_per_round: options.decisions(),
        bound_seconds: options.bound,
        groups: groups.iter().map(|group| run_group(group, &entries, options)).collect(),
        heap,
    })
}

/// A contender in a group; without a limiter after it missed a deadline.
struct Runner {
    entry: ContenderEntry,
    limiter: Option<Box<dyn Contender>>,
}

fn run_group(group: &Group, entries: &[ContenderEntry], options: &Options) -> GroupReport {
    let order = workload::shuffled(group.keys);
    let keys = workload::texts(&order);
    let mut runners: Vec<_> = entries
        .iter()
        .map(|&entry| {
            progress::show(&format!("{} keys, {}: warming {}", group.keys, group.limit, entry.name));
            let limiter = (entry.build)(group.limit);
            let is_warm = measure::warm_up(&*limiter, &keys, group.warm_hits, options.bound());
            Runner { entry, limiter: is_warm.then_some(limiter) }
        })
        .collect();

    let scenarios = group.scenarios.iter().map(|&scenario| {
        let Scenario { threads, spread } = scenario;
        progress::show(&format!("{} keys, {}: {threads} threads, {spread:?}", group.keys, group.limit));
        run_scenario(scenario, &mut runners, &order, options)
    });
    GroupReport {
        keys: group.keys,
        outcome: group.outcome,
        limit: group.limit.to_string(),
        scenarios: scenarios.collect(),
    }
}

fn run_scenario(scenario: Scenario, runners: &mut [Runner], order: &[u32], options: &Options) -> ScenarioReport {
    let sequences = scenario.sequences(order, options.decisions());
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); runners.len()];
    for _ in 0..options.rounds {
        for (runner, rounds) in runners.iter_mut().zip(&mut rounds) {
            let Some(limiter) = &runner.limiter else {
                continue;
            };
            match measure::round(&**limiter, &sequences, options.bound()) {
                Some(round) => rounds.push(round),
                None => runner.limiter = None,
            }
        }
    }
    let rows = runners.iter().zip(rounds).map(|(runner, rounds)| Row {
        contender: runner.entry.name,
        like: runner.entry.like,
        answer: runner.limiter.as_ref().map(|_| RoundSummary::of(&rounds)),
        ratio: None,
    });
    ScenarioReport::new(scenario, rows.collect())
}
