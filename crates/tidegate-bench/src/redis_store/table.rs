//! The run as text.

use std::fmt::Write as _;

use comfy_table::Table;

use super::report::{Flow, RedisReport, ThroughputRow};
use crate::table::{grouped, plain};

/// The whole report.
pub fn render(report: &RedisReport) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "{} cores, {}, {}, Redis {}\n{} rounds, interleaved; the median of the rounds\n",
        machine.cores, machine.platform, machine.rustc, report.redis, report.rounds,
    );
    let mut section = |title: &str, table: Table| {
        let _ = write!(text, "\n{title}\n{}\n", table.trim_fmt());
    };
    if !report.throughput.is_empty() {
        let title = format!(
            "Decisions per second, rounds of {} s, 100/1m, keys equally often; x: ours by theirs",
            report.round_seconds
        );
        section(&title, throughput(report));
        section("What a decision costs, in microseconds, and how many cores were busy with it", costs(report));
        section("Decisions per second of the rivals in every way that was tried, shortly", tried(report));
    }
    if !report.memory.is_empty() {
        section("Bytes in Redis per request in the window; x: ours by the sorted set's", memory(report));
    }
    if !report.outage.is_empty() {
        section("Nanoseconds of a decision while Redis is away; x: by the same in memory", outage(report));
    }
    text
}

fn throughput(report: &RedisReport) -> Table {
    let header = [
        "where",
        "ours",
        "rival",
        "called by",
        "keys",
        "tasks",
        "batch",
        "allowed",
        "ours/s",
        "rival/s",
        "x",
        "wanted",
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
            verdict(row.ratio >= row.wanted),
        ]);
    }
    table
}

fn costs(report: &RedisReport) -> Table {
    let header = [
        "where",
        "who",
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
        for (who, flow) in [(row.algorithm, &row.ours), (row.rival, &row.theirs)] {
            table.add_row(cost_cells(row, who, flow));
        }
    }
    table
}

fn cost_cells(row: &ThroughputRow, who: &str, flow: &Flow) -> Vec<String> {
    let rounds = &flow.rounds_per_second;
    let mut cells = vec![row.servers.to_owned(), who.to_owned(), grouped(row.keys), row.tasks.to_string()];
    let times = [flow.script_us, flow.server_us, flow.client_us, flow.server_cores, flow.client_cores];
    cells.extend(times.map(|time| format!("{time:.2}")));
    cells.push(whole(rounds.iter().copied().fold(f64::INFINITY, f64::min)));
    cells.push(whole(rounds.iter().copied().fold(0.0, f64::max)));
    cells
}

fn tried(report: &RedisReport) -> Table {
    let mut table = plain(&["where", "rival", "called by", "keys", "tasks", "/s"], 3);
    for row in &report.throughput {
        for (way, speed) in &row.tried {
            let (servers, rival) = (row.servers.to_owned(), row.rival.to_owned());
            table.add_row([servers, rival, way.clone(), grouped(row.keys), row.tasks.to_string(), whole(*speed)]);
        }
    }
    table
}

fn memory(report: &RedisReport) -> Table {
    let mut table = plain(&["limit", "measured by", "keys", "requests", "ours", "theirs", "x", "wanted", ""], 2);
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
            verdict(row.ratio <= row.wanted),
        ]);
    }
    table
}

fn outage(report: &RedisReport) -> Table {
    let mut table = plain(&["policy", "keys", "without Redis", "in memory", "x", "wanted", ""], 1);
    for row in &report.outage {
        table.add_row([
            row.on_store_failure.to_owned(),
            grouped(row.keys),
            format!("{:.1}", row.ours_ns),
            format!("{:.1}", row.memory_ns),
            format!("{:.2}", row.ratio),
            format!("<= {}", row.wanted),
            verdict(row.ratio <= row.wanted),
        ]);
    }
    table
}

pub(crate) fn verdict(is_met: bool) -> String {
    if is_met { "met" } else { "missed" }.to_owned()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "speeds are small and positive")]
pub(crate) fn whole(speed: f64) -> String {
    grouped(speed.round() as usize)
}
