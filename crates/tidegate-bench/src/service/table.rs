//! The run as text.

use std::fmt::Write as _;

use comfy_table::Table;

use super::report::{Flow, ServiceReport, ThroughputRow};
use crate::redis_store::{verdict, whole};
use crate::table::plain;

/// The whole report.
pub fn render(report: &ServiceReport) -> String {
    let machine = &report.machine;
    let [before, after] = report.load_average;
    let mut text = format!(
        "{} cores, {}, {}, Redis {}\nload average {before:.1} before, {after:.1} after: load and servers share the cores\n\
         {} rounds of about {} s, interleaved; the median of the rounds\n",
        machine.cores, machine.platform, machine.rustc, report.redis, report.rounds, report.round_seconds,
    );
    let mut section = |title: &str, table: Table| {
        let _ = write!(text, "\n{title}\n{}\n", table.trim_fmt());
    };
    section("What is wanted; x: ours by theirs", wanted(report));
    if !report.throughput.is_empty() {
        section("Each side: microseconds of the server for a request, milliseconds until the answer", sides(report));
    }
    text
}

fn wanted(report: &ServiceReport) -> Table {
    let mut table = plain(&["what", "measured by", "beside", "ours", "theirs", "x", "wanted", ""], 3);
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
            if row.wanted_speed > 0.0 { verdict(row.speed >= row.wanted_speed) } else { String::new() },
        ]);
        table.add_row([
            what.clone(),
            "CPU us/request".to_owned(),
            (*rival).to_owned(),
            format!("{:.2}", ours.server_us),
            format!("{:.2}", theirs.server_us),
            format!("{:.2}", row.cost),
            row.wanted_cost.map_or_else(String::new, |most| format!("<= {most}")),
            row.wanted_cost.map_or_else(String::new, |most| verdict(row.cost <= most)),
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
            verdict(goal.measured <= goal.wanted),
        ]);
    }
    table
}

fn sides(report: &ServiceReport) -> Table {
    let header =
        ["what", "who", "/s", "slowest/s", "fastest/s", "server us", "server cores", "p50 ms", "p99 ms", "p99.9 ms"];
    let mut table = plain(&header, 2);
    for row in &report.throughput {
        for (who, flow) in [("tidegate", &row.ours), (row.rival, &row.theirs)] {
            table.add_row(cells(&row.what, who, flow));
        }
    }
    table
}

fn cells(what: &str, who: &str, flow: &Flow) -> Vec<String> {
    let rounds = &flow.rounds_per_second;
    vec![
        what.to_owned(),
        who.to_owned(),
        whole(flow.per_second),
        whole(rounds.iter().copied().fold(f64::INFINITY, f64::min)),
        whole(rounds.iter().copied().fold(0.0, f64::max)),
        format!("{:.2}", flow.server_us),
        format!("{:.2}", flow.server_cores),
        format!("{:.3}", flow.latency_ms.p50),
        format!("{:.3}", flow.latency_ms.p99),
        format!("{:.3}", flow.latency_ms.p999),
    ]
}
