//! Sections that the pages of simulations share: the worst windows, the memory, and the glossary.

use super::{
    escape, facts,
    plot::{BarRange, HorizontalBars, Style, as_f64},
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

fn groups(trace: &TraceResult, values: impl Fn(&AlgorithmResult) -> Vec<f64>) -> Vec<(&str, Vec<f64>)> {
    trace.algorithms.iter().map(|result| (result.algorithm.as_str(), values(result))).collect()
}

/// Returns charts of the worst window of each algorithm and of the size of a client's state.
pub(super) fn windows_and_memory(trace: &TraceResult) -> String {
    let windows = HorizontalBars {
        title: "Worst window",
        about: "for each algorithm, the most units that a client got in any window, and the bound",
        unit: "units in a window, as a multiple of the limit",
        formats: (times, |times| format!("{}×", short_count(times))),
        series: vec![("most units of a client in any window", Style::Series(0)), ("bound", Style::Series(1))],
        groups: groups(trace, |result| vec![result.worst_window_times, ratio(result.promised_window_units, trace.max)]),
        range: BarRange::FromZero,
    };
    let memory = HorizontalBars {
        title: "Memory of a client",
        about: "for each algorithm, the largest size of a client's state, on average",
        series: vec![("largest size of its state, on average", Style::Series(0))],
        groups: groups(trace, |result| vec![result.bytes_per_key]),
        ..BYTES
    };
    windows.html() + &memory.html()
}

/// An empty chart of sizes.
const BYTES: HorizontalBars<'_> = HorizontalBars {
    title: "",
    about: "",
    unit: "bytes",
    formats: (bytes, short_count),
    series: Vec::new(),
    groups: Vec::new(),
    range: BarRange::FromZero,
};

/// Returns the section on the memory of a client that spends the whole limit.
pub(super) fn full_keys(trace: &TraceResult) -> String {
    let chart = HorizontalBars {
        title: "Memory of a client that spends the whole limit",
        about: "for each algorithm, the largest size of the state of such a client",
        series: vec![("largest size of its state", Style::Series(0))],
        groups: groups(trace, |result| vec![as_f64(result.bytes_per_full_key)]),
        ..BYTES
    };
    let text = format!(
        "<p>A client that spends {} evenly, in at most 10,000 requests a window. The size of <code>sliding_log</code> grows \
         with its requests. The size of the other algorithms has a maximum.</p>\n",
        escape::text(&trace.limit),
    );
    section("Memory at the limit", &(text + &chart.html()))
}
