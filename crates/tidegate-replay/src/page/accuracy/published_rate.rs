//! The published rate of wrong decisions, compared with the measured rates.

use super::{approximate, with_requests};
use crate::{
    formatting::{list, share, short_share},
    page::{
        escape,
        plot::{BarRange, HorizontalBars, Style},
        section,
    },
    simulate::{accuracy::Accuracy, evaluation::TraceResult},
    wording::{self, PUBLISHED_RATE},
};

pub(super) fn html(found: &Accuracy) -> String {
    let traces = with_requests(found);
    let Some(first) = traces.first().filter(|first| approximate(&first.algorithms).next().is_some()) else {
        return String::new();
    };
    let shares = |trace: &TraceResult| -> Vec<f64> {
        approximate(&trace.algorithms).map(|(_, result)| result.beside_log.share()).collect()
    };
    let least =
        traces.iter().flat_map(|trace| shares(trace)).filter(|share| *share > 0.0).fold(PUBLISHED_RATE, f64::min);
    let chart = HorizontalBars {
        title: "Different from sliding_log",
        about: "for each trace, the share of requests that each algorithm decides differently from sliding_log",
        unit: "share of requests, logarithmic",
        formats: (share, short_share),
        series: approximate(&first.algorithms)
            .map(|(number, result)| (result.algorithm.as_str(), Style::Series(number)))
            .collect(),
        groups: traces.iter().map(|trace| (trace.trace.as_str(), shares(trace))).collect(),
        range: BarRange::Logarithmic {
            from: 10_f64.powf((least * 0.8).log10().floor()),
            line_at: PUBLISHED_RATE,
            label: "0.003 %, published",
        },
    };
    let simulated = wording::simulated(found).map(|text| format!(" ({text})")).unwrap_or_default();
    let text =
        format!("<p>{} {}{simulated}.</p>\n<p>{}</p>\n", wording::PUBLISHED, measured(&traces), wording::DEPENDS);
    section("The published rate of 0.003 %", &(text + &chart.html()))
}

/// Describes the sliding counter, in a sentence without its full stop.
fn measured(traces: &[&TraceResult]) -> String {
    let of = |trace: &&TraceResult| {
        let counter = wording::sliding_counter(trace)?;
        Some(format!("{} of {}", share(counter.beside_log.share()), escape::name(&trace.trace, 60)))
    };
    let measured: Vec<String> = traces.iter().filter_map(of).collect();
    match measured[..] {
        [] => "It was not tried here".to_owned(),
        _ => format!("Here it differs from sliding_log on {}", list(&measured)),
    }
}
