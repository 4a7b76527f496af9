//! The run as text.

use comfy_table::Table;

use super::report::MiddlewareReport;
use crate::redis_store::{verdict, whole};
use crate::table::plain;

/// The whole report.
pub fn render(report: &MiddlewareReport) -> String {
    let machine = &report.machine;
    let [before, after] = report.load_average;
    format!(
        "{} cores, {}, {}\nload average {before:.1} before, {after:.1} after: load and servers share the cores\n\
         {} rounds of {} turns for each side, a second each; medians of the turns\n\n\
         Processor time of the server for a request; x: ours by the other's, the median of the rounds' ratios\n{}\n\n\
         Each side\n{}\n",
        machine.cores,
        machine.platform,
        machine.rustc,
        report.rounds,
        report.round_seconds,
        ratios(report).trim_fmt(),
        sides(report).trim_fmt(),
    )
}

fn ratios(report: &MiddlewareReport) -> Table {
    let mut table = plain(&["ours", "beside", "us", "us", "x", "lowest", "highest", "wanted", ""], 2);
    for ratio in &report.ratios {
        let (low, high) = ends(&ratio.rounds_cost);
        table.add_row([
            ratio.ours.name().to_owned(),
            ratio.beside.name().to_owned(),
            format!("{:.2}", ratio.ours_us),
            format!("{:.2}", ratio.beside_us),
            format!("{:.3}", ratio.cost),
            format!("{low:.3}"),
            format!("{high:.3}"),
            ratio.wanted.map_or_else(String::new, |most| format!("<= {most}")),
            ratio.wanted.map_or_else(String::new, |most| verdict(ratio.cost <= most)),
        ]);
    }
    table
}

fn sides(report: &MiddlewareReport) -> Table {
    let header = ["side", "server us", "lowest", "highest", "requests/s", "server cores", "p50 ms", "p99 ms"];
    let mut table = plain(&header, 1);
    for side in &report.sides {
        let (low, high) = ends(&side.rounds_server_us);
        table.add_row([
            side.side.name().to_owned(),
            format!("{:.2}", side.flow.server_us),
            format!("{low:.2}"),
            format!("{high:.2}"),
            whole(side.flow.per_second),
            format!("{:.2}", side.flow.server_cores),
            format!("{:.3}", side.flow.latency_ms.p50),
            format!("{:.3}", side.flow.latency_ms.p99),
        ]);
    }
    table
}

/// The lowest and the highest.
fn ends(rounds: &[f64]) -> (f64, f64) {
    (rounds.iter().copied().fold(f64::INFINITY, f64::min), rounds.iter().copied().fold(0.0, f64::max))
}
