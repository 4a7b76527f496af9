//! The share of clients that a limit affects, for each window, with limits to consider.
//!
//! Most clients request very little and a few very much, so both axes are logarithmic. The few busy clients, which a limit is for, have
//! as much room as the others.

use super::{
    escape,
    plot::{Axis, Plot, Scale, Style, as_f64},
    section,
};
use crate::{
    findings::{Curve, Findings, Suggestion},
    formatting::{count, ratio, sentence, share, short_count, short_share},
    wording,
};

/// Maximum number of policies with a label in the plot.
const LABELLED: usize = 4;
/// Maximum number of tooltips.
const TOOLTIPS: usize = 300;

pub(super) fn html(findings: &Findings) -> String {
    let curves: Vec<&Curve> = findings.curves.iter().filter(|curve| !curve.points.is_empty()).collect();
    if curves.is_empty() || findings.clients == 0 {
        return String::new();
    }
    let text = "<p>A limit affects a client if the client ever requests more than the limit within one window. The curves are exact: \
                they come from the peak of each client in any window. Denials are those of <code>sliding_log</code>. Suggestions \
                begin with the one that affects the fewest clients.</p>\n";
    let curves: String = curves.into_iter().map(|curve| subsection(findings, curve)).collect();
    section("How many clients a limit affects", &format!("{text}{curves}"))
}

fn subsection(findings: &Findings, curve: &Curve) -> String {
    let window = escape::name(&curve.window, 24);
    let heading = format!("<h3>Share of clients affected, by limit, for a window of {window}</h3>\n");
    if curve.points.iter().all(|point| point.touched == 0) {
        let max = count(curve.points.first().map_or(0, |point| point.max));
        return format!(
            "{heading}<p>No client requests more than {max} in any {window}, so a limit affects no client.</p>\n"
        );
    }
    let cards = wording::suggestions(curve);
    let cards: String =
        cards.iter().map(|(at, suggestion, why)| card(suggestion, (at, why), findings.clients)).collect();
    let cards = if cards.is_empty() { cards } else { format!("<ul class=\"advice\">{cards}</ul>\n") };
    format!("{heading}{}{cards}", plot(findings, curve).html())
}

fn plot(findings: &Findings, curve: &Curve) -> Plot {
    let limits = limits_of(findings, curve);
    let suggestions = wording::suggestions(curve);
    let marked = limits.iter().map(|(max, _)| *max).chain(curve.suggestions.iter().map(|suggestion| suggestion.max));
    let all = curve.points.iter().map(|point| point.max).chain(marked);
    let (low, high) = all.fold((u64::MAX, 1), |(low, high), max| (low.min(max), high.max(max)));
    // The margin at the right shows the limits that affect no client.
    let (low, high) = (as_f64(low.max(1)), as_f64(high) * 1.15);
    let least = curve.points.iter().map(|point| point.share).filter(|share| *share > 0.0).fold(1.0, f64::min);
    let floor = 10f64.powf((least * 0.8).log10().floor());
    let mut points: Vec<(f64, f64)> = curve.points.iter().map(|point| (as_f64(point.max), point.share)).collect();
    points.extend(points.last().map(|(_, share)| (high, *share)));
    let mut plot = Plot::new(
        "",
        Axis::new(format!("limit, units in {}", curve.window), Scale::log(low, high), short_count).ticks(14),
        Axis::new("share of clients affected", Scale::log(floor, 1.0), short_share).ticks(8),
    )
    .about(format!("share of clients affected, by limit, for a window of {}: {}", curve.window, about(curve)))
    .height(280)
    .step_area("share of clients affected", Style::Series(0), &points);
    let shown: Vec<_> = curve.points.iter().step_by(curve.points.len().div_ceil(TOOLTIPS)).collect();
    for (i, point) in shown.iter().enumerate() {
        let to = shown.get(i + 1).map_or(high, |next| as_f64(next.max));
        let affected = format!("affects {}", affected(point.touched, findings.clients));
        plot = plot.tooltip(as_f64(point.max), to, &[format!("{}/{}", point.max, curve.window), affected]);
    }
    for (nth, (max, label)) in limits.iter().enumerate() {
        plot = plot.vertical_threshold(as_f64(*max), Style::Limit, if nth < LABELLED { label } else { "" });
    }
    if !limits.is_empty() {
        plot = plot.explain(Style::Limit, "limits of the policies above");
    }
    for (at, suggestion, _) in &suggestions {
        let label = format!("{}: {}", at.join(", "), suggestion.limit);
        let tooltip = format!("{label} {}", wording::effect(suggestion, findings.clients));
        plot = plot.vertical_threshold(as_f64(suggestion.max), Style::Note, &label).dot(
            as_f64(suggestion.max),
            suggestion.share,
            Style::Note,
            &tooltip,
        );
    }
    if suggestions.is_empty() { plot } else { plot.explain(Style::Note, "limits to consider") }
}

fn about(curve: &Curve) -> String {
    let text = |suggestion: &Suggestion| {
        format!("{} at {} affects {}", suggestion.limit, suggestion.at, share(suggestion.share))
    };
    curve.suggestions.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// Returns the different limits of policies for this window, in the order of the policies.
fn limits_of(findings: &Findings, curve: &Curve) -> Vec<(u64, String)> {
    let mut limits: Vec<(u64, String)> = Vec::new();
    for limit in findings.policies.iter().flat_map(|policy| &policy.limits) {
        if limit.window_us == curve.window_us && limits.iter().all(|(max, _)| *max != limit.max) {
            limits.push((limit.max, limit.limit.clone()));
        }
    }
    limits
}

fn affected(n: u64, clients: u64) -> String {
    match n {
        0 => "no client".to_owned(),
        n => format!("{} of {} clients ({})", count(n), count(clients), share(ratio(n, clients))),
    }
}

fn card(suggestion: &Suggestion, (at, why): (&[&str], &[&str]), clients: u64) -> String {
    let sent = match suggestion.touched {
        0 => String::new(),
        1 => format!(" The affected client sent {} of them.", share(suggestion.share_of_requests)),
        _ => format!(" The affected clients sent {} of them.", share(suggestion.share_of_requests)),
    };
    let why: Vec<String> = why.iter().map(|why| sentence(why)).collect();
    format!(
        "<li><span class=\"limit\">{}</span> <span class=\"at\">{}</span><p>{}{sent}</p><p>{}</p></li>",
        escape::name(&suggestion.limit, 40),
        escape::name(&at.join(", "), 40),
        sentence(&wording::effect(suggestion, clients)),
        escape::name(&why.join(" "), 400),
    )
}
