//! The results of a comparison. Serialised, these types are the JSON format; field names are stable.

use serde::Serialize;

use crate::heap::HeapReport;
use crate::machine::Machine;
use crate::measure::{Round, median};
use crate::workload::{Outcome, Scenario, Spread};

/// A whole comparison.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// Rounds behind every median.
    pub rounds: usize,
    /// Decisions per round, of all threads together.
    pub decisions_per_round: usize,
    /// The maximum time of a warm-up and of a round. A slower contender has no result.
    pub bound_seconds: u64,
    /// Time per decision.
    pub groups: Vec<GroupReport>,
    /// Memory.
    pub heap: HeapReport,
}

/// Scenarios over the same keys and limit.
#[derive(Debug, Serialize)]
pub struct GroupReport {
    /// The number of keys.
    pub keys: usize,
    /// The outcome of most requests.
    pub outcome: Outcome,
    /// The limit of every key.
    pub limit: String,
    /// The measurements.
    pub scenarios: Vec<ScenarioReport>,
}

/// All contenders on one scenario.
#[derive(Debug, Serialize)]
pub struct ScenarioReport {
    /// Concurrent threads.
    pub threads: usize,
    /// The distribution of the keys.
    pub spread: Spread,
    /// A row per contender, in the order of the tables.
    pub rows: Vec<Row>,
}

impl ScenarioReport {
    /// Fills in the ratios.
    pub fn new(scenario: Scenario, mut rows: Vec<Row>) -> Self {
        let ns: Vec<_> = rows.iter().map(|row| (row.contender, row.ns())).collect();
        for row in &mut rows {
            let ours = ns.iter().find(|(contender, _)| Some(*contender) == row.like);
            let ours = ours.and_then(|(_, ns)| *ns);
            row.ratio = row.ns().zip(ours).map(|(ns, ours)| ns / ours);
        }
        Self { threads: scenario.threads, spread: scenario.spread, rows }
    }
}

/// One contender on one scenario.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub contender: &'static str,
    /// The row of ours that it is compared with.
    pub like: Option<&'static str>,
    /// The results; null if the contender exceeded the bound.
    pub answer: Option<RoundSummary>,
    /// Its time divided by the time of `like`: above one is slower than ours.
    pub ratio: Option<f64>,
}

impl Row {
    /// The median time of a decision.
    pub fn ns(&self) -> Option<f64> {
        self.answer.as_ref().map(|answer| answer.ns_per_decision)
    }
}

/// The results of a contender.
#[derive(Debug, Serialize)]
pub struct RoundSummary {
    /// The median of the rounds.
    pub ns_per_decision: f64,
    /// Each round.
    pub rounds_ns: Vec<f64>,
    /// The share of admitted requests, median of the rounds.
    pub allowed: f64,
}

impl RoundSummary {
    /// Returns `None` if there was no round.
    pub fn of(rounds: &[Round]) -> Option<Self> {
        let rounds_ns: Vec<_> = rounds.iter().map(|round| round.ns_per_decision).collect();
        let allowed: Vec<_> = rounds.iter().map(|round| round.allowed).collect();
        Some(Self { ns_per_decision: median(&rounds_ns)?, allowed: median(&allowed)?, rounds_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(contender: &'static str, like: Option<&'static str>, ns: Option<f64>) -> Row {
        let round = |ns_per_decision| Round { ns_per_decision, allowed: 1.0 };
        Row { contender, like, answer: ns.and_then(|ns| RoundSummary::of(&[round(ns)])), ratio: None }
    }

    #[test]
    fn ratios_refer_to_the_row_in_like() {
        let scenario = Scenario { threads: 1, spread: Spread::Uniform };
        let report = ScenarioReport::new(
            scenario,
            vec![
                row("harness", None, Some(1.0)),
                row("ours", Some("ours"), Some(20.0)),
                row("slower", Some("ours"), Some(50.0)),
                row("without result", Some("ours"), None),
                row("alone", Some("missing"), Some(9.0)),
            ],
        );
        let ratios: Vec<_> = report.rows.iter().map(|row| row.ratio).collect();
        assert_eq!(ratios, [None, Some(1.0), Some(2.5), None, None]);
    }
}
