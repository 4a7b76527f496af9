//! The share of requests that a limit on requests at once would deny, with limits to consider.

use super::{
    escape,
    plot::{Axis, Plot, Scale, Style, as_f64},
    section,
};
use crate::{
    findings::{AtOnceFindings, AtOnceLimit, Findings},
    formatting::{count, sentence, short_count, short_share},
    wording,
};

/// Maximum number of limits of policies with a label.
const LABELLED: usize = 4;

pub(super) fn html(findings: &Findings) -> String {
    let Some(found) = findings.at_once.as_ref().filter(|found| !found.limits.is_empty()) else { return String::new() };
    let heading = "What a limit on requests at once denies";
    if found.limits.iter().all(|limit| limit.touched == 0) {
        return section(heading, "<p>No client has two requests at once, so no limit on them denies a request.</p>\n");
    }
    let is_known = found.limits.iter().all(|limit| limit.denied.is_some());
    let costs = if is_known { String::new() } else { format!(" {}", wording::AT_ONCE_COSTS) };
    let exact = if findings.input.still_late == 0 {
        "The numbers are exact."
    } else {
        "The clients are exact. The requests are approximate, because some lines are late."
    };
    let text = format!("<p>{} {exact}{costs}</p>\n", wording::AT_ONCE_LIMITS);
    let cards = wording::at_once_suggestions(found).into_iter().map(|(at, suggestion)| {
        format!(
            "<li><span class=\"limit\">{}</span> <span class=\"at\">{}</span><p>{}</p></li>",
            escape::text(&suggestion.limit),
            escape::text(&at.join(", ")),
            escape::text(&sentence(&wording::at_once_effect(&suggestion.effect, findings.clients))),
        )
    });
    let cards: String = cards.collect();
    section(heading, &format!("{text}{}<ul class=\"advice\">{cards}</ul>\n", plot(findings, found).html()))
}

fn plot(findings: &Findings, found: &AtOnceFindings) -> Plot {
    let limits = limits_of(findings);
    let highest = found.limits.iter().map(|limit| limit.max).chain(limits.iter().copied()).max().unwrap_or(1);
    // The margin at the right shows the limits that deny nothing.
    let high = as_f64(highest) * 1.15;
    let line = |value: &dyn Fn(&AtOnceLimit) -> Option<f64>| {
        let points = found.limits.iter().filter_map(|limit| Some((as_f64(limit.max), value(limit)?)));
        let mut points: Vec<(f64, f64)> = points.collect();
        points.extend(points.last().map(|(_, share)| (high, *share)));
        points
    };
    let (requests, clients) = (line(&|limit| limit.share_of_requests_denied), line(&|limit| Some(limit.share)));
    let shares = requests.iter().chain(&clients).map(|(_, share)| *share).filter(|share| *share > 0.0);
    let floor = 10f64.powf((shares.fold(1.0, f64::min) * 0.8).log10().floor());
    let low = as_f64(found.limits.first().map_or(1, |limit| limit.max));
    let mut plot = Plot::new(
        "",
        Axis::new("limit, requests of a client at once", Scale::log(low, high), short_count).ticks(14),
        Axis::new("share", Scale::log(floor, 1.0), short_share).ticks(8),
    )
    .about("share of requests denied and of clients affected, by limit on requests at once")
    .height(280);
    if !requests.is_empty() {
        plot = plot.step_area("share of requests denied", Style::Denied, &requests);
    }
    plot = plot.step_line("share of clients affected", Style::Series(0), &clients);
    for (nth, limit) in found.limits.iter().enumerate() {
        let end = found.limits.get(nth + 1).map_or(high, |next| as_f64(next.max));
        let effect = wording::at_once_effect(limit, findings.clients);
        plot = plot.tooltip(as_f64(limit.max), end, &[format!("{}/inflight", count(limit.max)), effect]);
    }
    for (nth, max) in limits.iter().enumerate() {
        let label = if nth < LABELLED { format!("{max}/inflight") } else { String::new() };
        plot = plot.vertical_threshold(as_f64(*max), Style::Limit, &label);
    }
    if !limits.is_empty() {
        plot = plot.explain(Style::Limit, "limits of the policies above");
    }
    let suggestions = wording::at_once_suggestions(found);
    for (at, suggestion) in &suggestions {
        let label = format!("{}: {}", at.join(", "), suggestion.effect.max);
        plot = plot.vertical_threshold(as_f64(suggestion.effect.max), Style::Note, &label);
    }
    if suggestions.is_empty() { plot } else { plot.explain(Style::Note, "limits to consider") }
}

/// Returns the different limits of policies on requests at once, in the order of the policies.
fn limits_of(findings: &Findings) -> Vec<u64> {
    let mut limits = Vec::new();
    for limit in findings.policies.iter().flat_map(|policy| &policy.limits).filter(|limit| limit.window_us == 0) {
        if !limits.contains(&limit.max) {
            limits.push(limit.max);
        }
    }
    limits
}
