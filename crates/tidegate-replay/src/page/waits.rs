//! What Retry-After would have told those who were denied.

use super::plot::{Axis, Look, Plot};
use super::{NAME, Table, escape};
use crate::figures::{self, count};
use crate::findings::{Findings, PolicyFindings, WaitStep};

/// More bars than this side by side are too thin.
const SIDE_BY_SIDE: usize = 4;

pub(super) fn html(findings: &Findings) -> String {
    let told: Vec<(usize, &PolicyFindings)> =
        findings.policies.iter().enumerate().filter(|(_, policy)| policy.retry_after.count > 0).collect();
    if told.is_empty() {
        return String::new();
    }
    let mut table = Table::new(
        "Waits told, in whole seconds, rounded up",
        &["Policy", ">Denials told a wait", ">Median", ">p90", ">p99", ">Longest"],
    );
    for (_, policy) in &told {
        let waits = &policy.retry_after;
        let cells = [waits.p50_s, waits.p90_s, waits.p99_s, waits.max_s].map(seconds);
        table.row([escape::name(&policy.name, NAME), count(waits.count)].into_iter().chain(cells));
    }
    let plots: String = plots(&told).iter().map(Plot::to_string).collect();
    format!(
        "<section>\n<h2>What Retry-After would have told them</h2>\n\
         <p>A client that waits as long as it is told is let through, if it sends nothing else meanwhile.</p>\n\
         {table}{plots}</section>\n"
    )
}

fn plots(told: &[(usize, &PolicyFindings)]) -> Vec<Plot> {
    let mut ends: Vec<u64> =
        told.iter().flat_map(|(_, policy)| &policy.retry_after.steps).map(|step| step.up_to_s).collect();
    ends.sort_unstable();
    ends.dedup();
    if ends.is_empty() {
        return Vec::new();
    }
    let share = |policy: &PolicyFindings, end: u64| {
        let count = |step: &WaitStep| if step.up_to_s == end { step.count } else { 0 };
        figures::ratio(policy.retry_after.steps.iter().map(count).sum(), policy.retry_after.count)
    };
    let values = |policy: &PolicyFindings| -> Vec<f64> { ends.iter().map(|end| share(policy, *end)).collect() };
    let most = told.iter().flat_map(|(_, policy)| values(policy)).fold(0.0, f64::max);
    let names: Vec<String> = ends.iter().map(|end| seconds(*end)).collect();
    let parts = told.len().div_ceil(SIDE_BY_SIDE);
    let plot = |(nth, part): (usize, &[(usize, &PolicyFindings)])| {
        let title = match parts {
            1 => "Waits told".to_owned(),
            _ => format!("Waits told, part {} of {parts}, on the same scale", nth + 1),
        };
        let series: Vec<(&str, Look, Vec<f64>)> =
            part.iter().map(|(i, policy)| (policy.name.as_str(), Look::Series(*i), values(policy))).collect();
        let x = Axis::names("told to wait at most this long, and longer than the step before", names.clone());
        Plot::new(title, x, Axis::shares("share of the policy's denials", most))
            .about("for each step of waits, the share of denials that were told it")
            .grouped(&series, figures::share)
    };
    told.chunks(SIDE_BY_SIDE).enumerate().map(plot).collect()
}

fn seconds(seconds: u64) -> String {
    figures::length(seconds.saturating_mul(1_000_000))
}
