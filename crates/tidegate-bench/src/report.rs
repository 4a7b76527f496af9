//! The results of a comparison. Serialised, these types are the JSON format; field names are stable. As text, the
//! report has a table per group, with a row per contender and a column per scenario.

use std::fmt;

use serde::Serialize;

use crate::heap::HeapReport;
use crate::machine::Machine;
use crate::measure::{Round, median};
use crate::saturated_log::SaturatedLog;
use crate::table::{Columns, grouped, highest, lowest};
use crate::workload::{Outcome, Scenario, Spread};

/// A whole comparison.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// Rounds behind every median.
    pub rounds: u16,
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
    /// The medians of at least one round.
    pub fn of(rounds: &[Round]) -> Self {
        let ns = rounds.iter().map(|round| round.ns_per_decision);
        let allowed = median(rounds.iter().map(|round| round.allowed));
        Self { ns_per_decision: median(ns.clone()), allowed, rounds_ns: ns.collect() }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}\n\
             {} rounds of {} decisions, interleaved; the median of the rounds\n\
             ns: wall time divided by the decisions of all threads, with real clocks and reading the key\n\
             x:  that time divided by the time of our row in the column \"like\"; above 1 is slower than ours\n",
            self.machine,
            self.rounds,
            grouped(self.decisions_per_round),
        )?;
        for group in &self.groups {
            group.write(out, self.bound_seconds)?;
        }
        let bytes =
            |bytes: Option<f64>| bytes.map_or_else(|| no_result(self.bound_seconds), |bytes| format!("{bytes:.1}"));
        let HeapReport { keys, limit, rows, saturated_log } = &self.heap;
        Columns::of(rows)
            .text("contender", |row| row.contender.clone())
            .number("one request each", |row| bytes(row.bytes_per_key))
            .number("two requests each", |row| bytes(row.bytes_per_key_two_requests))
            .write(out, &format!("Heap bytes per key, {} keys ({limit})", grouped(*keys)))?;
        let SaturatedLog { keys, limit, bytes_per_request, .. } = saturated_log;
        writeln!(
            out,
            "\ntidegate sliding_log, {keys} full and sliding at {limit}: {bytes_per_request:.2} heap bytes per request in \
             the window",
        )
    }
}

impl GroupReport {
    fn title(&self) -> String {
        let keys = match self.keys {
            1 => "One hot key".to_owned(),
            many => format!("{} keys", grouped(many)),
        };
        let outcome = match self.outcome {
            Outcome::Allowed => "mostly allowed",
            Outcome::Denied => "mostly denied",
        };
        format!("{keys}, {outcome} ({})", self.limit)
    }

    fn write(&self, out: &mut fmt::Formatter<'_>, bound: u64) -> fmt::Result {
        let contenders = self.scenarios.first().map_or(0, |scenario| scenario.rows.len());
        let first = |contender: usize| &self.scenarios[0].rows[contender];
        let mut table = Columns::of(0..contenders)
            .text("contender", |contender| first(*contender).contender.to_owned())
            // Our algorithm without the name of the project.
            .text("like", |contender| first(*contender).like.unwrap_or_default().replace("tidegate ", ""));
        for scenario in &self.scenarios {
            let row = |contender: usize| &scenario.rows[contender];
            table = table
                .number(&scenario.name(), |contender| {
                    row(*contender).ns().map_or_else(|| no_result(bound), nanoseconds)
                })
                .number("x", |contender| row(*contender).ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")));
        }
        table.number("allowed", |contender| self.allowed(*contender)).write(out, &self.title())
    }

    /// The share of admitted requests of a contender, as a range over the scenarios.
    fn allowed(&self, contender: usize) -> String {
        let answers = self.scenarios.iter().filter_map(|scenario| scenario.rows[contender].answer.as_ref());
        let shares: Vec<f64> = answers.map(|answer| answer.allowed * 100.0).collect();
        if shares.is_empty() {
            return String::new();
        }
        let (low, high) = (format!("{:.0}", lowest(&shares)), format!("{:.0}", highest(&shares)));
        if low == high { format!("{low}%") } else { format!("{low}-{high}%") }
    }
}

impl ScenarioReport {
    fn name(&self) -> String {
        let spread = match self.spread {
            Spread::Uniform => "uniform\n",
            Spread::Zipf => "Zipf\n",
            Spread::HotKey => "",
        };
        match self.threads {
            1 => format!("{spread}1 thread ns"),
            threads => format!("{spread}{threads} threads ns"),
        }
    }
}

fn no_result(bound: u64) -> String {
    format!("no result in {bound} s")
}

fn nanoseconds(ns: f64) -> String {
    if ns < 100.0 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(contender: &'static str, like: Option<&'static str>, ns: Option<f64>) -> Row {
        let round = |ns_per_decision| Round { ns_per_decision, allowed: 1.0 };
        Row { contender, like, answer: ns.map(|ns| RoundSummary::of(&[round(ns)])), ratio: None }
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
