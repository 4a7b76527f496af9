//! The comparison: every contender on every workload, rounds interleaved, medians reported.
//!
//! Round one of all contenders comes before round two of any, so that other work of the machine
//! affects all of them. State is kept between rounds and between the scenarios of a group.

use std::time::Duration;

use anyhow::Result;

use crate::contenders::{self, Contender, ContenderEntry};
use crate::heap;
use crate::machine::Machine;
use crate::measure::{self, Round};
use crate::progress::Progress;
use crate::report::{GroupReport, Report, RoundSummary, Row, ScenarioReport};
use crate::workload::{self, Group, Scale, Scenario};

/// Options of the command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of rounds. Their median is reported.
    pub rounds: usize,
    /// Projects to measure; empty means all.
    pub only: Vec<String>,
    /// The size of the run.
    pub scale: Scale,
    /// The maximum time of a contender for one warm-up or one round.
    pub bound: Duration,
}

/// Runs the comparison.
///
/// # Errors
/// If a project is unknown, or the heap could not be measured.
pub fn run(options: &Options) -> Result<Report> {
    let entries = contenders::select(&options.only)?;
    let progress = Progress::new();
    // First, because it can fail.
    progress.show("heap bytes");
    let heap = heap::measure_in_own_process(options)?;
    let groups =
        workload::groups(options.scale).iter().map(|group| run_group(group, &entries, options, &progress)).collect();
    progress.clear();
    Ok(Report {
        machine: Machine::this(),
        rounds: options.rounds,
        decisions_per_round: options.scale.decisions,
        bound_seconds: options.bound.as_secs(),
        groups,
        heap,
    })
}

/// A contender in a group; without a limiter after it missed a deadline.
struct Runner {
    entry: ContenderEntry,
    limiter: Option<Box<dyn Contender>>,
}

fn run_group(group: &Group, entries: &[ContenderEntry], options: &Options, progress: &Progress) -> GroupReport {
    let order = workload::shuffled(group.keys);
    let keys = workload::texts(&order);
    let mut runners: Vec<_> = entries
        .iter()
        .map(|&entry| {
            progress.show(&format!("{} keys, {}: warming {}", group.keys, group.quota, entry.name));
            let limiter = (entry.build)(group.quota);
            let is_warm = measure::warm_up(&*limiter, &keys, group.warm_hits, options.bound);
            Runner { entry, limiter: is_warm.then_some(limiter) }
        })
        .collect();

    let scenarios = group.scenarios.iter().map(|&scenario| {
        progress.show(&format!(
            "{} keys, {}: {} threads, {:?}",
            group.keys, group.quota, scenario.threads, scenario.spread
        ));
        run_scenario(scenario, &mut runners, &order, options)
    });
    GroupReport {
        keys: group.keys,
        outcome: group.outcome,
        limit: group.quota.to_string(),
        scenarios: scenarios.collect(),
    }
}

fn run_scenario(scenario: Scenario, runners: &mut [Runner], order: &[u32], options: &Options) -> ScenarioReport {
    let sequences = scenario.sequences(order, options.scale.decisions);
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); runners.len()];
    for _ in 0..options.rounds {
        for (runner, rounds) in runners.iter_mut().zip(&mut rounds) {
            let Some(limiter) = &runner.limiter else {
                continue;
            };
            match measure::round(&**limiter, &sequences, options.bound) {
                Some(round) => rounds.push(round),
                None => runner.limiter = None,
            }
        }
    }
    let rows = runners.iter().zip(rounds).map(|(runner, rounds)| Row {
        contender: runner.entry.name,
        like: runner.entry.like,
        answer: match runner.limiter {
            Some(_) => RoundSummary::of(&rounds),
            None => None,
        },
        ratio: None,
    });
    ScenarioReport::new(scenario, rows.collect())
}
