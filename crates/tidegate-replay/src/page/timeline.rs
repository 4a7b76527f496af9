//! Requests and denials over time. Denials are few beside requests, so they have a plot of their own below, on the same
//! axis of time.

use super::plot::{Axis, Bins, Look, Plot, as_f64};
use crate::figures::{self, count};
use crate::findings::{Findings, PolicyFindings, Timeline};

/// More lines than this in one plot can't be followed.
const LINES: usize = 6;

pub(super) fn html(findings: &Findings) -> String {
    let timeline = &findings.timeline;
    if timeline.requests.iter().all(|n| *n == 0) {
        return String::new();
    }
    let heading = match findings.policies.as_slice() {
        [] => "Requests over time",
        _ => "Requests and denials over time",
    };
    if timeline.requests.len() == 1 {
        let (bin, from) = (figures::length(timeline.bin_us), figures::moment(timeline.from_us));
        let told = match timeline.requests[0] {
            1 => format!("The only request came at {from} UTC."),
            n => format!("All {} requests came within {bin}, at {from} UTC.", count(n)),
        };
        return format!("<section>\n<h2>{heading}</h2>\n<p>{told}</p>\n</section>\n");
    }
    let plots: String = denials(findings).into_iter().map(|plot| plot.to_string()).collect();
    format!("<section>\n<h2>{heading}</h2>\n{}{plots}</section>\n", requests(findings))
}

fn axis(timeline: &Timeline) -> Axis {
    let length = timeline.bin_us.saturating_mul(timeline.requests.len() as u64);
    Axis::time(timeline.from_us, timeline.from_us.saturating_add(length))
}

fn requests(findings: &Findings) -> Plot {
    let timeline = &findings.timeline;
    let bins = Bins::new(timeline.from_us, timeline.bin_us);
    let bin = figures::length(timeline.bin_us);
    let most = timeline.requests.iter().copied().max().unwrap_or(0);
    let mut plot = Plot::new("Requests", axis(timeline), Axis::counts(format!("requests in {bin}"), most))
        .about(format!("at most {} in {bin}", count(most)))
        .bins_area("requests", Look::Requests, bins, &timeline.requests);
    if let (Some(policy), Some(denied)) = (findings.policies.first(), timeline.denied.first())
        && policy.denied > 0
    {
        plot = plot.bins_area(&format!("of them denied by {}", policy.name), Look::Denied, bins, denied);
    }
    with_values(plot, timeline, &findings.policies)
}

/// A policy, its number, and what it denies in each bin.
type Denied<'a> = (usize, &'a PolicyFindings, &'a [u64]);

fn denials(findings: &Findings) -> Vec<Plot> {
    let timeline = &findings.timeline;
    let bins = Bins::new(timeline.from_us, timeline.bin_us);
    let bin = figures::length(timeline.bin_us);
    if timeline.denied.iter().flatten().all(|n| *n == 0) {
        return Vec::new();
    }
    let all: Vec<Denied<'_>> = findings
        .policies
        .iter()
        .zip(&timeline.denied)
        .enumerate()
        .map(|(i, (policy, denied))| (i, policy, denied.as_slice()))
        .collect();
    let plot = |(nth, part): (usize, &[Denied<'_>])| {
        let title = match all.len().div_ceil(LINES) {
            1 => "Denials".to_owned(),
            of => format!("Denials, part {} of {of}, on a scale of its own", nth + 1),
        };
        let most = part.iter().flat_map(|(_, _, denied)| *denied).copied().max().unwrap_or(0);
        let plot = Plot::new(title, axis(timeline), Axis::counts(format!("denials in {bin}"), most))
            .about(format!("at most {} in {bin}", count(most)))
            .height(180);
        let plot = part
            .iter()
            .fold(plot, |plot, (i, policy, denied)| plot.bins_steps(&policy.name, Look::Series(*i), bins, denied));
        with_values(plot, timeline, &findings.policies)
    };
    all.chunks(LINES).enumerate().map(plot).collect()
}

/// Tells, for each bin, all that is known about it.
fn with_values(plot: Plot, timeline: &Timeline, policies: &[PolicyFindings]) -> Plot {
    let bins = Bins::new(timeline.from_us, timeline.bin_us);
    timeline.requests.iter().enumerate().filter(|(_, n)| **n > 0).fold(plot, |plot, (i, n)| {
        let from = timeline.from_us.saturating_add(timeline.bin_us.saturating_mul(i as u64));
        let denied = policies.iter().zip(&timeline.denied).filter_map(|(policy, denied)| {
            let n = denied.get(i).filter(|n| **n > 0)?;
            Some(format!("{} denied by {}", count(*n), crate::page::escape::clip(&policy.name, 60)))
        });
        let lines = [figures::moment(from), format!("{} requests", count(*n))].into_iter().chain(denied).collect();
        plot.hover(bins.start(i), bins.start(i) + as_f64(timeline.bin_us), lines)
    })
}
