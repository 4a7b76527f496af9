//! The run as text.

use std::fmt::Write as _;

use comfy_table::Table;

use super::report::{ServerSummary, ServiceReport, ThroughputRow};
use crate::table::{extremes, met_or_missed, plain, whole};

/// Returns the whole report.
pub fn render(report: &ServiceReport) -> String {
    let [before, after] = report.load_average;
    let mut text = format!(
        "{}, Redis {}\nload average {before:.1} before, {after:.1} after; the load generator uses the same cores\n\
         {} rounds of about {} s, interleaved; the median of the rounds\n",
        report.machine, report.redis, report.rounds, report.round_seconds,
    );
    let mut section = |title: &str, table: Table| {
        let _ = write!(text, "\n{title}\n{}\n", table.trim_fmt());
    };
    section("Targets; x: ours divided by theirs", targets(report));
    if !report.throughput.is_empty() {
        section("Each server: processor time of a request in microseconds, latency in milliseconds", servers(report));
    }
    text
}

fn targets(report: &ServiceReport) -> Table {
    let header = ["benchmark", "measured by", "compared with", "ours", "theirs", "x", "target", ""];
    let mut table = plain(&header, 3);
    for row in &report.throughput {
        let ThroughputRow { what, rival, ours, theirs, .. } = row;
        table.add_row([
            what.clone(),
            "requests/s".to_owned(),
            (*rival).to_owned(),
            whole(ours.per_second),
            whole(theirs.per_second),
            format!("{:.2}", row.speed),
            if row.wanted_speed > 0.0 { format!(">= {}", row.wanted_speed) } else { String::new() },
            if row.wanted_speed > 0.0 { met_or_missed(row.speed >= row.wanted_speed) } else { String::new() },
        ]);
        table.add_row([
            what.clone(),
            "CPU us/request".to_owned(),
            (*rival).to_owned(),
            format!("{:.2}", ours.server_us),
            format!("{:.2}", theirs.server_us),
            format!("{:.2}", row.cost),
            row.wanted_cost.map_or_else(String::new, |max| format!("<= {max}")),
            row.wanted_cost.map_or_else(String::new, |max| met_or_missed(row.cost <= max)),
        ]);
    }
    for goal in &report.goals {
        table.add_row([
            goal.what.clone(),
            goal.unit.to_owned(),
            String::new(),
            format!("{:.1}", goal.measured),
            String::new(),
            String::new(),
            format!("<= {}", goal.wanted),
            met_or_missed(goal.measured <= goal.wanted),
        ]);
    }
    table
}

fn servers(report: &ServiceReport) -> Table {
    let header =
        ["benchmark", "server", "/s", "slowest/s", "fastest/s", "CPU us", "cores", "p50 ms", "p99 ms", "p99.9 ms"];
    let mut table = plain(&header, 2);
    for row in &report.throughput {
        for (server, summary) in [("tidegate", &row.ours), (row.rival, &row.theirs)] {
            table.add_row(cells(&row.what, server, summary));
        }
    }
    table
}

fn cells(benchmark: &str, server: &str, summary: &ServerSummary) -> Vec<String> {
    let (slowest, fastest) = extremes(&summary.rounds_per_second);
    vec![
        benchmark.to_owned(),
        server.to_owned(),
        whole(summary.per_second),
        whole(slowest),
        whole(fastest),
        format!("{:.2}", summary.server_us),
        format!("{:.2}", summary.server_cores),
        format!("{:.3}", summary.latency_ms.p50),
        format!("{:.3}", summary.latency_ms.p99),
        format!("{:.3}", summary.latency_ms.p999),
    ]
}
