//! The distance of the approximate algorithms from `sliding_log`, as a page.

mod published_rate;
mod trace;

use super::{document::document, escape, header, simulation};
use crate::{
    formatting::share,
    simulate::{
        accuracy::Accuracy,
        evaluation::{AlgorithmResult, TraceResult},
    },
    wording,
};

/// Returns the page of [`accuracy`](crate::simulate::accuracy).
pub fn accuracy(found: &Accuracy) -> String {
    let simulated = wording::simulated(found).map(|text| format!("<p>Traffic: {text}.</p>\n")).unwrap_or_default();
    let traces: String = found.traces.iter().map(trace::html).collect();
    let sections = [
        header("simulate accuracy", &escape::text(&found.limit), &escape::text(&headline(found)), &simulated),
        simulation::glossary(wording::ACCURACY),
        published_rate::html(found),
        traces,
        found.traces.first().map(simulation::full_keys).unwrap_or_default(),
    ];
    document(&format!("{}: distance from exact · Tidegate simulate", found.limit), &sections.concat())
}

/// Returns the algorithms other than `sliding_log`, with their numbers.
fn approximate(results: &[AlgorithmResult]) -> impl Iterator<Item = (usize, &AlgorithmResult)> {
    results.iter().enumerate().filter(|(_, result)| result.algorithm != "sliding_log")
}

/// Returns the traces that have requests.
fn with_requests(found: &Accuracy) -> Vec<&TraceResult> {
    found.traces.iter().filter(|trace| trace.summary.requests > 0).collect()
}

/// Describes the sliding counter, or the first approximate algorithm.
fn headline(found: &Accuracy) -> String {
    let traces = with_requests(found);
    let Some(first) = traces.first() else {
        return "No requests were decided, so there is nothing to compare.".to_owned();
    };
    let counter = approximate(&first.algorithms).find(|(_, result)| result.algorithm == "sliding_counter");
    let Some((number, result)) = counter.or_else(|| approximate(&first.algorithms).next()) else {
        return "Only sliding_log was tried, and it is never wrong.".to_owned();
    };
    let shares = traces.iter().filter_map(|trace| trace.algorithms.get(number)).map(|result| result.beside_log.share());
    let (min, max) = shares.fold((1.0_f64, 0.0_f64), |(min, max), share| (min.min(share), max.max(share)));
    let (min, max, name) = (share(min), share(max), &result.algorithm);
    if min == max {
        return format!("{name} differs from sliding_log on {max} of requests.");
    }
    format!("{name} differs from sliding_log on {min} to {max} of requests, depending on the traffic.")
}
