//! The figure that is often quoted, beside what was measured.

use super::others;
use crate::{
    figures::{share, short_share},
    page::{
        escape,
        plot::{Look, Rows},
    },
    simulate::{accuracy::Accuracy, trial::Trialled},
};

/// What Cloudflare reports of its own traffic: 0.003 %.
const QUOTED: f64 = 0.000_03;

pub(super) fn html(found: &Accuracy) -> String {
    let traces: Vec<&Trialled> = found.traces.iter().filter(|trace| trace.asked.requests > 0).collect();
    let Some(first) = traces.first().filter(|first| others(&first.algorithms).next().is_some()) else {
        return String::new();
    };
    let least = traces.iter().flat_map(|trace| others(&trace.algorithms)).map(|(_, tried)| tried.beside_log.share());
    let least = least.filter(|share| *share > 0.0).fold(QUOTED, f64::min);
    let mut rows = Rows::new(
        "Decided otherwise than the exact log",
        "share of requests; each step is ten times the one before",
        share,
        short_share,
    )
    .about("for each trace, the share of requests that each algorithm decides otherwise than the exact log")
    .ratios(10_f64.powf((least * 0.8).log10().floor()))
    .rule(QUOTED, Look::Note, "0.003 %, as quoted");
    for (place, tried) in others(&first.algorithms) {
        rows = rows.series(&tried.algorithm, Look::Series(place));
    }
    for trace in &traces {
        let shares: Vec<f64> = others(&trace.algorithms).map(|(_, tried)| tried.beside_log.share()).collect();
        rows = rows.row(&trace.trace, &shares);
    }
    format!(
        "<section>\n<h2>The 0.003 % that is often quoted</h2>\n<p>Cloudflare reports about {} of wrong decisions by a sliding \
         counter on its own traffic. {} How many there are depends on how much of the traffic comes from clients that are near \
         their limit or above it: where most are far below, there is little to be wrong about.{}</p>\n{rows}\
         </section>\n",
        share(QUOTED),
        measured(&traces),
        escape::text(&load(found)),
    )
}

/// What the counter does here, in a sentence.
fn measured(traces: &[&Trialled]) -> String {
    let of = |trace: &&Trialled| {
        let (_, counter) = others(&trace.algorithms).find(|(_, tried)| tried.algorithm == "sliding_counter")?;
        let denied = trace.algorithms.first().map_or(0.0, |log| log.share_denied);
        let trace = escape::name(&trace.trace, 60);
        Some(format!("{} of {trace}, of which the log denies {}", share(counter.beside_log.share()), share(denied)))
    };
    let told: Vec<String> = traces.iter().filter_map(of).collect();
    if told.is_empty() { String::new() } else { format!("Here it is {}.", told.join("; ")) }
}

fn load(found: &Accuracy) -> String {
    match (found.load, found.seed) {
        (Some(load), Some(seed)) => format!(
            " The traffic here is made up: clients ask for {load} times the limit on average (seed {seed}), and a share of \
             them for more than the limit."
        ),
        _ => String::new(),
    }
}
