//! One trace: the wrong decisions of each algorithm, its worst window, the memory of a client, and a table.

use super::approximate;
use crate::{
    formatting::{bytes, count, share, short_share, units},
    page::{
        NO_REQUESTS, escape,
        plot::{BarRange, HorizontalBars, Style},
        section, simulation,
    },
    simulate::evaluation::{AlgorithmResult, TraceResult, WrongDecisions},
    table::Table,
};

pub(super) fn html(trace: &TraceResult) -> String {
    let name = escape::name(&trace.trace, 80);
    if trace.summary.requests == 0 {
        return section(&name, &format!("<p>{NO_REQUESTS}</p>\n"));
    }
    let denied = trace.algorithms.first().map_or(0.0, |log| log.share_denied);
    let content = format!(
        "<p>{} sliding_log denies {}.</p>\n<div class=\"courses\">\n{}{}</div>\n{}",
        simulation::trace_summary(trace),
        share(denied),
        wrong(trace),
        simulation::windows_and_memory(trace),
        table(trace),
    );
    section(&name, &content)
}

/// Returns a chart for each meaning of wrong, on the same scale.
fn wrong(trace: &TraceResult) -> String {
    let shares = |wrong: &WrongDecisions| vec![wrong.share_admitted, wrong.share_denied];
    let both = |(_, result): (usize, &AlgorithmResult)| [result.beside_log, result.by_own_history];
    let max = approximate(&trace.algorithms).flat_map(both).flat_map(|wrong| shares(&wrong)).fold(0.0, f64::max);
    let chart = |(number, title): (usize, &str)| {
        let group = |entry: (usize, _)| shares(&both(entry)[number]);
        let chart = HorizontalBars {
            title,
            about: "for each algorithm, the share of requests wrongly admitted and wrongly denied",
            unit: "share of all requests",
            formats: (share, short_share),
            series: vec![("wrongly admitted", Style::Series(0)), ("wrongly denied", Style::Series(1))],
            groups: approximate(&trace.algorithms).map(|entry| (entry.1.algorithm.as_str(), group(entry))).collect(),
            range: BarRange::UpTo(max),
        };
        chart.html()
    };
    if approximate(&trace.algorithms).next().is_none() {
        return String::new();
    }
    ["Wrong against sliding_log", "Wrong by own past"].into_iter().enumerate().map(chart).collect()
}

fn table(trace: &TraceResult) -> String {
    let mut table = Table::new([
        "Algorithm",
        ">Admitted, against sliding_log",
        ">Denied, against sliding_log",
        ">Admitted, by own past",
        ">Denied, by own past",
        ">Worst window",
        ">Times the limit",
        ">Bound",
        ">Bytes",
    ]);
    for result in &trace.algorithms {
        let AlgorithmResult { beside_log, by_own_history, .. } = result;
        table.row([
            escape::text(&result.algorithm),
            part(beside_log.admitted, beside_log.share_admitted),
            part(beside_log.denied, beside_log.share_denied),
            part(by_own_history.admitted, by_own_history.share_admitted),
            part(by_own_history.denied, by_own_history.share_denied),
            units(result.worst_window_units),
            simulation::times(result.worst_window_times),
            units(result.promised_window_units),
            bytes(result.bytes_per_key),
        ]);
    }
    table.html(&format!("Wrong decisions of {}, worst windows in units, and memory", count(trace.summary.requests)))
}

fn part(n: u64, of: f64) -> String {
    if n == 0 { "0".to_owned() } else { format!("{} ({})", count(n), share(of)) }
}
