//! The figure that is often quoted, beside what was measured.

use super::others;
use crate::{
    figures::{share, short_share},
    page::{
        escape,
        plot::{Look, Rows},
        trial,
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
    let made_up = match (found.load, found.seed) {
        (Some(load), Some(seed)) => {
            format!(" (made-up clients ask for {load} times the limit on average; seed {seed})")
        }
        _ => String::new(),
    };
    format!(
        "<section>\n<h2>The 0.003 % that is often quoted</h2>\n<p>Cloudflare reports about 0.003 % of wrong decisions by a \
         sliding counter on its own traffic. {}{made_up}.</p>\n<p>How many there are depends on how much of the traffic comes \
         from clients that are near their limit or above it: where most are far below, there is little to be wrong about.</p>\n\
         {rows}</section>\n",
        measured(&traces),
    )
}

/// What the counter does here, in a sentence without its end.
fn measured(traces: &[&Trialled]) -> String {
    let of = |trace: &&Trialled| {
        let (_, counter) = others(&trace.algorithms).find(|(_, tried)| tried.algorithm == "sliding_counter")?;
        Some(format!("{} of {}", share(counter.beside_log.share()), escape::name(&trace.trace, 60)))
    };
    let told: Vec<String> = traces.iter().filter_map(of).collect();
    match told[..] {
        [] => "It was not tried here".to_owned(),
        _ => format!("Here it decides otherwise than the exact log on {}", trial::listed(&told)),
    }
}
