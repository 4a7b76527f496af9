//! The run as text.

use comfy_table::Table;

use super::report::MiddlewareReport;
use crate::table::{extremes, met_or_missed, plain, whole};

/// Returns the whole report.
pub fn render(report: &MiddlewareReport) -> String {
    let [before, after] = report.load_average;
    format!(
        "{}\nload average {before:.1} before, {after:.1} after; the load generator uses the same cores\n\
         {} rounds of {} turns of one second for each layer; medians of the turns\n\n\
         Processor time of the server for a request; x: ours divided by the other's, the median of the rounds\n{}\n\n\
         Each layer\n{}\n",
        report.machine,
        report.rounds,
        report.round_seconds,
        ratios(report).trim_fmt(),
        layers(report).trim_fmt(),
    )
}

fn ratios(report: &MiddlewareReport) -> Table {
    let mut table = plain(&["ours", "compared with", "us", "us", "x", "lowest", "highest", "target", ""], 2);
    for ratio in &report.ratios {
        let (low, high) = extremes(&ratio.rounds_cost);
        table.add_row([
            ratio.ours.name().to_owned(),
            ratio.other.name().to_owned(),
            format!("{:.2}", ratio.ours_us),
            format!("{:.2}", ratio.other_us),
            format!("{:.3}", ratio.cost),
            format!("{low:.3}"),
            format!("{high:.3}"),
            ratio.wanted.map_or_else(String::new, |max| format!("<= {max}")),
            ratio.wanted.map_or_else(String::new, |max| met_or_missed(ratio.cost <= max)),
        ]);
    }
    table
}

fn layers(report: &MiddlewareReport) -> Table {
    let header = ["layer", "server us", "lowest", "highest", "requests/s", "server cores", "p50 ms", "p99 ms"];
    let mut table = plain(&header, 1);
    for report in &report.layers {
        let (low, high) = extremes(&report.rounds_server_us);
        table.add_row([
            report.layer.name().to_owned(),
            format!("{:.2}", report.summary.server_us),
            format!("{low:.2}"),
            format!("{high:.2}"),
            whole(report.summary.per_second),
            format!("{:.2}", report.summary.server_cores),
            format!("{:.3}", report.summary.latency_ms.p50),
            format!("{:.3}", report.summary.latency_ms.p99),
        ]);
    }
    table
}
