//! Sections that the pages of simulations share: the worst windows, the memory, and the glossary.

use super::{
    escape, facts,
    plot::{HorizontalBars, Style, as_f64},
    section,
};
use crate::{
    formatting::{self, bytes, count, ratio, short_count},
    simulate::evaluation::{AlgorithmResult, TraceResult},
    wording::{self, Glossary},
};

/// Formats a multiple of the limit.
pub(super) fn times(times: f64) -> String {
    formatting::times(times) + "×"
}

/// Returns the section that explains the terms.
pub(super) fn glossary(terms: Glossary) -> String {
    section("Terms", &facts(terms))
}

/// Describes a trace in a sentence.
pub(super) fn trace_summary(trace: &TraceResult) -> String {
    let moved = match trace.summary.moved {
        0 => String::new(),
        n => format!(" {} were more than a window late and are decided at a later time.", count(n)),
    };
    format!("{}.{moved}", wording::trace(trace))
}

fn groups(
    trace: &TraceResult,
    values: impl Fn(&AlgorithmResult) -> Vec<f64>,
) -> impl Iterator<Item = (&str, Vec<f64>)> {
    trace.algorithms.iter().map(move |result| (result.algorithm.as_str(), values(result)))
}

/// Returns charts of the worst window of each algorithm and of the size of a client's state.
pub(super) fn windows_and_memory(trace: &TraceResult) -> String {
    let axis = |times: f64| format!("{}×", short_count(times));
    let windows =
        |result: &AlgorithmResult| vec![result.worst_window_times, ratio(result.promised_window_units, trace.max)];
    let windows = HorizontalBars::new("Worst window", "units in a window, as a multiple of the limit", times, axis)
        .about("for each algorithm, the most units that a client got in any window, and the bound")
        .series("most units of a client in any window", Style::Series(0))
        .series("bound", Style::Series(1))
        .groups(groups(trace, windows));
    let memory = HorizontalBars::new("Memory of a client", "bytes", bytes, short_count)
        .about("for each algorithm, the largest size of a client's state, on average")
        .series("largest size of its state, on average", Style::Series(0))
        .groups(groups(trace, |result| vec![result.bytes_per_key]));
    windows.html() + &memory.html()
}

/// Returns the section on the memory of a client that spends the whole limit.
pub(super) fn full_keys(trace: &TraceResult) -> String {
    let chart = HorizontalBars::new("Memory of a client that spends the whole limit", "bytes", bytes, short_count)
        .about("for each algorithm, the largest size of the state of such a client")
        .series("largest size of its state", Style::Series(0))
        .groups(groups(trace, |result| vec![as_f64(result.bytes_per_full_key)]));
    let text = format!(
        "<p>A client that spends {} evenly, in at most 10,000 requests a window. The size of a log grows with its requests. The size \
         of counters is constant.</p>\n",
        escape::text(&trace.limit),
    );
    section("Memory at the limit", &(text + &chart.html()))
}
