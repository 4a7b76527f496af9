//! Requests and denials over time. Denials are few compared to requests, so they have their own plot on the same time axis.

use super::{
    plot::{Axis, Plot, Style, TimeBins, split},
    section,
};
use crate::{
    findings::{Findings, PolicyFindings},
    formatting::{count, duration, timestamp},
    short_names::shorten,
};

/// Maximum number of lines in one plot.
pub(super) const LINES: usize = 6;

pub(super) fn html(findings: &Findings) -> String {
    let timeline = &findings.timeline;
    if timeline.requests.iter().all(|n| *n == 0) {
        return String::new();
    }
    let heading = if findings.policies.is_empty() { "Requests over time" } else { "Requests and denials over time" };
    if timeline.requests.len() == 1 {
        let (bin, from) = (duration(timeline.bin_us), timestamp(timeline.from_us));
        let text = match timeline.requests[0] {
            1 => format!("The only request came at {from} UTC."),
            n => format!("All {} requests came within {bin}, at {from} UTC.", count(n)),
        };
        return section(heading, &format!("<p>{text}</p>\n"));
    }
    section(heading, &(requests(findings).html() + &denials(findings)))
}

fn bins(findings: &Findings) -> TimeBins {
    TimeBins { from_us: findings.timeline.from_us, bin_us: findings.timeline.bin_us }
}

/// Returns an empty plot of counts in each bin, with tooltips.
fn plot(findings: &Findings, title: impl Into<String>, what: &str, max: u64) -> Plot {
    let (timeline, bin) = (&findings.timeline, duration(findings.timeline.bin_us));
    let x = bins(findings).axis(timeline.requests.len());
    let plot = Plot::new(title, x, Axis::counts(format!("{what} in {bin}"), max))
        .about(format!("at most {} in {bin}", count(max)));
    plot.bin_tooltips(bins(findings), &timeline.requests, |bin, n| {
        let denied = findings.policies.iter().zip(&timeline.denied).filter_map(|(policy, denied)| {
            let n = denied.get(bin).filter(|n| **n > 0)?;
            Some(format!("{} denied by {}", count(*n), shorten(&policy.name, 60)))
        });
        std::iter::once(format!("{} requests", count(n))).chain(denied).collect()
    })
}

fn requests(findings: &Findings) -> Plot {
    let timeline = &findings.timeline;
    let max = timeline.requests.iter().copied().max().unwrap_or(0);
    let plot = plot(findings, "Requests", "requests", max);
    let plot = plot.step_area("requests", Style::Requests, &bins(findings).points(&timeline.requests));
    match (findings.policies.first(), timeline.denied.first()) {
        (Some(policy), Some(denied)) if policy.denied > 0 => {
            plot.step_area(&format!("denied by {}", policy.name), Style::Denied, &bins(findings).points(denied))
        }
        _ => plot,
    }
}

fn denials(findings: &Findings) -> String {
    if findings.timeline.denied.iter().flatten().all(|n| *n == 0) {
        return String::new();
    }
    let policies: Vec<(usize, (&PolicyFindings, &Vec<u64>))> =
        findings.policies.iter().zip(&findings.timeline.denied).enumerate().collect();
    split("Denials", "its own scale", &policies, LINES, |title, policies| {
        let max = policies.iter().flat_map(|(_, (_, denied))| *denied).copied().max().unwrap_or(0);
        let plot = plot(findings, title, "denials", max).height(180);
        let add = |plot: Plot, (i, (policy, denied)): &(usize, (&PolicyFindings, &Vec<u64>))| {
            plot.step_line(&policy.name, Style::Series(*i), &bins(findings).points(denied))
        };
        policies.iter().fold(plot, add).html()
    })
}
