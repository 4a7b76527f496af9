//! The run as text.

use std::fmt::Write as _;

use comfy_table::Table;

use super::report::{RedisReport, ThroughputRow, ThroughputSummary};
use crate::table::{extremes, grouped, met_or_missed, plain, whole};

/// Returns the whole report.
pub fn render(report: &RedisReport) -> String {
    let mut text = format!(
        "{}, Redis {}\n{} rounds, interleaved; the median of the rounds\n",
        report.machine, report.redis, report.rounds,
    );
    let mut section = |title: &str, table: Table| {
        let _ = write!(text, "\n{title}\n{}\n", table.trim_fmt());
    };
    if !report.throughput.is_empty() {
        let title = format!(
            "Decisions per second, rounds of {} s, 100/1m, uniform keys; x: ours divided by theirs",
            report.round_seconds
        );
        section(&title, throughput(report));
        section("Cost of a decision in microseconds, and busy cores", costs(report));
        section("Decisions per second of the rivals with each call method, in short rounds", tried(report));
    }
    if !report.memory.is_empty() {
        section("Bytes in Redis per request in the window; x: ours divided by the sorted set's", memory(report));
    }
    if !report.outage.is_empty() {
        section("Nanoseconds of a decision while Redis is down; x: divided by those in memory", outage(report));
    }
    text
}

fn throughput(report: &RedisReport) -> Table {
    let header = [
        "servers",
        "ours",
        "rival",
        "call method",
        "keys",
        "tasks",
        "batch",
        "allowed",
        "ours/s",
        "rival/s",
        "x",
        "target",
        "",
    ];
    let mut table = plain(&header, 4);
    for row in &report.throughput {
        table.add_row([
            row.servers.to_owned(),
            row.algorithm.to_owned(),
            row.rival.to_owned(),
            row.way.clone(),
            grouped(row.keys),
            row.tasks.to_string(),
            format!("{:.1}", row.batch),
            format!("{:.0}/{:.0}%", row.ours.allowed * 100.0, row.theirs.allowed * 100.0),
            whole(row.ours.per_second),
            whole(row.theirs.per_second),
            format!("{:.2}", row.ratio),
            format!(">= {}", row.wanted),
            met_or_missed(row.ratio >= row.wanted),
        ]);
    }
    table
}

fn costs(report: &RedisReport) -> Table {
    let header = [
        "servers",
        "contender",
        "keys",
        "tasks",
        "script",
        "server",
        "client",
        "server cores",
        "client cores",
        "slowest/s",
        "fastest/s",
    ];
    let mut table = plain(&header, 2);
    for row in &report.throughput {
        for (contender, summary) in [(row.algorithm, &row.ours), (row.rival, &row.theirs)] {
            table.add_row(cost_cells(row, contender, summary));
        }
    }
    table
}

fn cost_cells(row: &ThroughputRow, contender: &str, summary: &ThroughputSummary) -> Vec<String> {
    let (slowest, fastest) = extremes(&summary.rounds_per_second);
    let mut cells = vec![row.servers.to_owned(), contender.to_owned(), grouped(row.keys), row.tasks.to_string()];
    let times = [summary.script_us, summary.server_us, summary.client_us, summary.server_cores, summary.client_cores];
    cells.extend(times.map(|time| format!("{time:.2}")));
    cells.extend([slowest, fastest].map(whole));
    cells
}

fn tried(report: &RedisReport) -> Table {
    let mut table = plain(&["servers", "rival", "call method", "keys", "tasks", "/s"], 3);
    for row in &report.throughput {
        for (method, rate) in &row.tried {
            let (servers, rival) = (row.servers.to_owned(), row.rival.to_owned());
            table.add_row([servers, rival, method.clone(), grouped(row.keys), row.tasks.to_string(), whole(*rate)]);
        }
    }
    table
}

fn memory(report: &RedisReport) -> Table {
    let mut table = plain(&["limit", "measured by", "keys", "requests", "ours", "theirs", "x", "target", ""], 2);
    for row in &report.memory {
        table.add_row([
            row.limit.clone(),
            row.measure.to_owned(),
            row.keys.to_string(),
            row.requests.to_string(),
            format!("{:.2}", row.ours),
            format!("{:.2}", row.theirs),
            format!("{:.3}", row.ratio),
            format!("<= {}", row.wanted),
            met_or_missed(row.ratio <= row.wanted),
        ]);
    }
    table
}

fn outage(report: &RedisReport) -> Table {
    let mut table = plain(&["policy", "keys", "without Redis", "in memory", "x", "target", ""], 1);
    for row in &report.outage {
        table.add_row([
            row.on_store_failure.to_owned(),
            grouped(row.keys),
            format!("{:.1}", row.ours_ns),
            format!("{:.1}", row.memory_ns),
            format!("{:.2}", row.ratio),
            format!("<= {}", row.wanted),
            met_or_missed(row.ratio <= row.wanted),
        ]);
    }
    table
}
