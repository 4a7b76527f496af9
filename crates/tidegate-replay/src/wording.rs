//! Sentences that the text reports and the pages share.

use std::fmt::Write as _;

use crate::{
    findings::Findings,
    formatting::{count, duration, plural, units},
    logs::InputSummary,
    simulate::{
        accuracy::Accuracy,
        boundary::{Boundary, Scenario},
        evaluation::{AlgorithmResult, TraceResult},
    },
};

/// Terms of a report and their meanings.
pub(crate) type Glossary = &'static [(&'static str, &'static str)];

const WORST_WINDOW: (&str, &str) = ("Worst window", "the largest number of units that one client got in any window");
const BOUND: (&str, &str) = ("Bound", "the maximum that the algorithm promises for any window");
const BYTES: (&str, &str) = ("Bytes", "the largest size of a client's state, on average over a sample of clients");

pub(crate) const BOUNDARY: Glossary = &[
    WORST_WINDOW,
    BOUND,
    (
        "Attempts",
        "the units at one time are decided as one request that costs as much as fits, which admits the same number of units",
    ),
];

pub(crate) const COMPARISON: Glossary = &[
    ("Denied", "the requests denied, and the clients denied at least once"),
    ("Unlike the log", "the requests that the exact log decides differently"),
    WORST_WINDOW,
    BOUND,
    BYTES,
];

pub(crate) const ACCURACY: Glossary = &[
    (
        "Against the log",
        "the requests that were admitted where the exact log denies them, or denied where it admits them, as shares of all requests; one \
         difference causes others, because a different history leads to different decisions",
    ),
    (
        "By own history",
        "the requests that were admitted although the window was full, or denied although they fitted, given the requests that the \
         algorithm itself admitted before; an earlier difference has no effect",
    ),
    WORST_WINDOW,
    BOUND,
    BYTES,
];

/// Share of wrong decisions that Cloudflare reports: 0.003 %.
pub(crate) const PUBLISHED_RATE: f64 = 0.000_03;
pub(crate) const PUBLISHED: &str =
    "Cloudflare reports about 0.003 % of wrong decisions by a sliding counter on its own traffic.";
pub(crate) const DEPENDS: &str =
    "The number depends on how much of the traffic comes from clients that are near or above their limit.";

/// Describes the simulated traffic.
pub(crate) fn simulated(found: &Accuracy) -> Option<String> {
    let (load, seed) = (found.load?, found.seed?);
    Some(format!("simulated clients request {load} times the limit on average; seed {seed}"))
}

/// Returns the title and the description of a scenario.
pub(crate) fn scenario(found: &Boundary, scenario: &Scenario) -> (&'static str, String) {
    let max = units(found.max);
    let burst = format!("The client attempts {max} in the last microsecond before the boundary");
    if scenario.name == "both_sides" {
        return (
            "A burst on each side of the boundary",
            format!("{burst}, and {max} in the first microsecond after it."),
        );
    }
    let attempts = scenario.moments_us.len().saturating_sub(1);
    let description = format!(
        "{burst}, then as many as fit at {attempts} times in the next window. The last attempt comes just before the burst leaves \
         the window."
    );
    ("A burst, then a trickle", description)
}

/// Describes a trace: the number of clients and requests, and the duration.
pub(crate) fn trace(trace: &TraceResult) -> String {
    let summary = &trace.summary;
    let mut text = format!("{}, {}", plural(summary.clients, "client"), plural(summary.requests, "request"));
    if summary.units > summary.requests && summary.requests > 0 {
        let _ = write!(text, " of {} units", units(summary.units / summary.requests));
    }
    if summary.length_us() > 0 {
        let _ = write!(text, " in {}", duration(summary.length_us()));
    }
    text
}

/// Returns the results of the sliding counter.
pub(crate) fn sliding_counter(trace: &TraceResult) -> Option<&AlgorithmResult> {
    trace.algorithms.iter().find(|result| result.algorithm == "sliding_counter")
}

/// Describes properties of the input that affect the results, each in a clause.
pub(crate) fn notes(Findings { input, interrupted, .. }: &Findings) -> Vec<String> {
    let mut notes = Vec::new();
    if *interrupted {
        notes.push("stopped before the end of the input: these are the results so far".to_owned());
    }
    if input.spread {
        notes.push("requests were spread at random within their second".to_owned());
    } else if input.whole_seconds && input.requests > 1 {
        let rule = "the requests of one second are decided at one time, in the order of the log";
        notes.push(format!("times are whole seconds: {rule} (--spread spreads them within the second)"));
    }
    if input.out_of_order > 0 {
        notes.push(late(input));
    }
    if input.without_key > 0 {
        notes.push(format!("{} without a client key, not decided", plural(input.without_key, "request")));
    }
    notes
}

/// Describes the requests that are logged late.
fn late(input: &InputSummary) -> String {
    let (late, by) = (plural(input.out_of_order, "request"), duration(input.latest_by_us));
    if input.sorted && input.still_late == 0 {
        return format!("{late} logged late by up to {by}, and sorted");
    }
    // In whole seconds, as `--sort` reads it.
    let span = duration(input.latest_by_us.div_ceil(1_000_000) * 1_000_000);
    let decided = format!("{} decided at a later time, which is stricter", count(input.still_late));
    format!("{late} logged late by up to {by}; {decided} (--sort {span} sorts all)")
}
