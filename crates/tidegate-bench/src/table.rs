//! The comparison as text: a table per group, contenders down, scenarios across.

use std::fmt::Write as _;

use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::heap::HeapReport;
use crate::report::{GroupReport, Report, Row, ScenarioReport};
use crate::workload::{Outcome, Spread};

/// Returns the whole report.
pub fn render(report: &Report) -> String {
    let mut text = header(report);
    for group in &report.groups {
        let _ = write!(text, "\n{}\n{}\n", title(group), group_table(group, report.bound_seconds).trim_fmt());
    }
    let _ = write!(text, "\n{}", heap_section(&report.heap, report.bound_seconds));
    text
}

fn header(report: &Report) -> String {
    format!(
        "{}\n\
         {} rounds of {} decisions, interleaved; the median of the rounds\n\
         ns: wall time divided by the decisions of all threads, with real clocks and reading the key\n\
         x:  that time divided by the time of our row in the column \"like\"; above 1 is slower than ours\n",
        report.machine,
        report.rounds,
        grouped(report.decisions_per_round),
    )
}

fn title(group: &GroupReport) -> String {
    let keys = match group.keys {
        1 => "One hot key".to_owned(),
        many => format!("{} keys", grouped(many)),
    };
    let outcome = match group.outcome {
        Outcome::Allowed => "mostly allowed",
        Outcome::Denied => "mostly denied",
    };
    format!("{keys}, {outcome} ({})", group.limit)
}

fn group_table(group: &GroupReport, bound: u64) -> Table {
    let mut header = vec!["contender".to_owned(), "like".to_owned()];
    for scenario in &group.scenarios {
        header.extend([scenario_name(scenario), "x".to_owned()]);
    }
    header.push("allowed".to_owned());

    let mut table = plain(&header, 2);
    let contenders = group.scenarios.first().map_or(0, |scenario| scenario.rows.len());
    for index in 0..contenders {
        let rows: Vec<&Row> = group.scenarios.iter().map(|scenario| &scenario.rows[index]).collect();
        table.add_row(contender_cells(&rows, bound));
    }
    table
}

fn contender_cells(rows: &[&Row], bound: u64) -> Vec<String> {
    let mut cells = vec![rows[0].contender.to_owned(), like(rows[0])];
    for row in rows {
        cells.push(row.ns().map_or_else(|| no_result(bound), nanoseconds));
        cells.push(row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")));
    }
    cells.push(allowed(rows));
    cells
}

fn scenario_name(scenario: &ScenarioReport) -> String {
    let spread = match scenario.spread {
        Spread::Uniform => "uniform\n",
        Spread::Zipf => "Zipf\n",
        Spread::HotKey => "",
    };
    match scenario.threads {
        1 => format!("{spread}1 thread ns"),
        threads => format!("{spread}{threads} threads ns"),
    }
}

/// The name of our algorithm without the name of the project.
fn like(row: &Row) -> String {
    let like = row.like.unwrap_or_default();
    like.strip_prefix("tidegate ").unwrap_or(like).to_owned()
}

/// The share of admitted requests, as a range over the scenarios.
fn allowed(rows: &[&Row]) -> String {
    let shares = rows.iter().filter_map(|row| row.answer.as_ref()).map(|answer| answer.allowed);
    let Some((low, high)) = shares.map(|share| (share, share)).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    else {
        return String::new();
    };
    let (low, high) = (format!("{:.0}", low * 100.0), format!("{:.0}", high * 100.0));
    if low == high { format!("{low}%") } else { format!("{low}-{high}%") }
}

fn heap_section(heap: &HeapReport, bound: u64) -> String {
    let mut table = plain(&["contender", "one request each", "two requests each"], 1);
    for row in &heap.rows {
        let bytes = |bytes: Option<f64>| bytes.map_or_else(|| no_result(bound), |bytes| format!("{bytes:.1}"));
        let two = bytes(row.bytes_per_key_two_requests);
        table.add_row([row.contender.clone(), bytes(row.bytes_per_key), two]);
    }
    let log = &heap.saturated_log;
    format!(
        "Heap bytes per key, {} keys ({})\n{}\n\n\
         tidegate sliding_log, {} full and sliding at {}: {:.2} heap bytes per request in the window\n",
        grouped(heap.keys),
        heap.limit,
        table.trim_fmt(),
        log.keys,
        log.limit,
        log.bytes_per_request,
    )
}

/// A table without lines; the first `names` columns are text, the others numbers.
pub(crate) fn plain<T: ToString>(header: &[T], names: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let align = |column| {
        if column < names { CellAlignment::Left } else { CellAlignment::Right }
    };
    let cells = header.iter().enumerate();
    table.set_header(cells.map(|(column, title)| Cell::new(title.to_string()).set_alignment(align(column))));
    for (column, settings) in table.column_iter_mut().enumerate() {
        settings.set_cell_alignment(align(column));
    }
    table
}

fn no_result(bound: u64) -> String {
    format!("no result in {bound} s")
}

fn nanoseconds(ns: f64) -> String {
    if ns < 100.0 { format!("{ns:.1}") } else { format!("{ns:.0}") }
}

/// Whether a target was met.
pub(crate) fn met_or_missed(is_met: bool) -> String {
    if is_met { "met" } else { "missed" }.to_owned()
}

/// A rate as a whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are small and positive")]
pub(crate) fn whole(rate: f64) -> String {
    grouped(rate.round() as usize)
}

/// The lowest and the highest value.
pub(crate) fn extremes(values: &[f64]) -> (f64, f64) {
    (values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(0.0, f64::max))
}

/// `1000000` as `1,000,000`.
pub(crate) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!(grouped(1), "1");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }
}
