//! The distance from `sliding_log`, as text.

use std::fmt::Write as _;

use super::{full_keys, glossary, paragraph, trace_heading, window_and_bytes};
use crate::{
    formatting::share,
    simulate::{
        accuracy::Accuracy,
        evaluation::{AlgorithmResult, TraceResult},
    },
    table::Table,
    wording,
};

/// Returns a table for each trace, and the meaning of its columns.
pub fn accuracy(accuracy: &Accuracy) -> String {
    let mut out = format!("{}: distance from sliding_log\n", accuracy.limit);
    if let Some(simulated) = wording::simulated(accuracy) {
        let _ = writeln!(out, "({simulated})");
    }
    for trace in &accuracy.traces {
        let _ = write!(out, "\n{}{}", trace_heading(trace), table(trace).text());
    }
    let _ = write!(out, "\n{}", glossary(wording::ACCURACY));
    out.push_str(&accuracy.traces.first().map(full_keys).unwrap_or_default());
    let measured: Vec<String> = accuracy.traces.iter().filter_map(measured).collect();
    if !measured.is_empty() {
        let differs = format!("sliding_counter differs from sliding_log on {}.", measured.join(", "));
        let _ = write!(out, "\n{}", paragraph(&[&differs, wording::PUBLISHED, wording::DEPENDS].join(" ")));
    }
    out
}

fn table(trace: &TraceResult) -> Table {
    let mut table = Table::new(["", ">against", ">sliding_log", ">by own", ">past", ">worst", ">", ">"]);
    let second = ["algorithm", "admit", "deny", "admit", "deny", "window", "bound", "bytes"];
    table.row(second.map(str::to_owned));
    for result in &trace.algorithms {
        let AlgorithmResult { beside_log, by_own_history, .. } = result;
        let shares =
            [beside_log, by_own_history].into_iter().flat_map(|wrong| [wrong.share_admitted, wrong.share_denied]);
        let name = std::iter::once(result.algorithm.clone());
        table.row(name.chain(shares.map(share)).chain(window_and_bytes(result, trace.max)));
    }
    table
}

/// Describes the sliding counter on a trace.
fn measured(trace: &TraceResult) -> Option<String> {
    let counter = wording::sliding_counter(trace)?;
    Some(format!("{} of the {} trace", share(counter.beside_log.share()), trace.trace))
}
