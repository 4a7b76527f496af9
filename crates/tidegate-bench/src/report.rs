//! The results of a comparison. Serialised, these types are the JSON format; field names are stable. As text, the
//! report has a table per group, with a row per contender and a column per scenario.

use std::fmt;

use serde::Serialize;

use crate::heap::HeapReport;
use crate::machine::Machine;
use crate::measure::{Round, median};
use crate::table::{grid, grouped, highest, lowest};
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
            write!(out, "{}", group.table(self.bound_seconds))?;
        }
        write!(out, "{}", self.heap_section())
    }
}

impl Report {
    fn heap_section(&self) -> String {
        let bytes =
            |bytes: Option<f64>| bytes.map_or_else(|| no_result(self.bound_seconds), |bytes| format!("{bytes:.1}"));
        let title = format!("Heap bytes per key, {} keys ({})", grouped(self.heap.keys), self.heap.limit);
        let header = ["contender", "one request each", "two requests each"].map(str::to_owned);
        let rows =
            self.heap.rows.iter().map(|row| {
                vec![row.contender.clone(), bytes(row.bytes_per_key), bytes(row.bytes_per_key_two_requests)]
            });
        let log = &self.heap.saturated_log;
        format!(
            "{}\ntidegate sliding_log, {} full and sliding at {}: {:.2} heap bytes per request in the window\n",
            grid(&title, 1, header.into(), rows.collect()),
            log.keys,
            log.limit,
            log.bytes_per_request,
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

    fn table(&self, bound: u64) -> String {
        let mut header = vec!["contender".to_owned(), "like".to_owned()];
        header.extend(self.scenarios.iter().flat_map(|scenario| [scenario.name(), "x".to_owned()]));
        header.push("allowed".to_owned());
        let contenders = self.scenarios.first().map_or(0, |scenario| scenario.rows.len());
        let rows = (0..contenders).map(|index| {
            let rows: Vec<&Row> = self.scenarios.iter().map(|scenario| &scenario.rows[index]).collect();
            cells(&rows, bound)
        });
        grid(&self.title(), 2, header, rows.collect())
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

/// The cells of a contender: its rows of all scenarios.
fn cells(rows: &[&Row], bound: u64) -> Vec<String> {
    // Our algorithm without the name of the project.
    let like = rows[0].like.unwrap_or_default();
    let mut cells = vec![rows[0].contender.to_owned(), like.strip_prefix("tidegate ").unwrap_or(like).to_owned()];
    for row in rows {
        cells.push(row.ns().map_or_else(|| no_result(bound), nanoseconds));
        cells.push(row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")));
    }
    cells.push(allowed(rows));
    cells
}

/// The share of admitted requests, as a range over the scenarios.
fn allowed(rows: &[&Row]) -> String {
    let shares: Vec<f64> = rows.iter().filter_map(|row| Some(row.answer.as_ref()?.allowed * 100.0)).collect();
    if shares.is_empty() {
        return String::new();
    }
    let (low, high) = (format!("{:.0}", lowest(&shares)), format!("{:.0}", highest(&shares)));
    if low == high { format!("{low}%") } else { format!("{low}-{high}%") }
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
