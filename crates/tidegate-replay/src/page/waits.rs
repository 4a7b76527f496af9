//! The Retry-After times of denials.

use super::{
    NAME, escape,
    plot::{Axis, Plot, Style, split},
    section,
};
use crate::{
    findings::{Findings, PolicyFindings, WaitStep},
    formatting::{count, ratio, seconds, share},
    table::Table,
};

/// Maximum number of bars side by side.
const SIDE_BY_SIDE: usize = 4;

pub(super) fn html(findings: &Findings) -> String {
    let policies = findings.policies.iter().enumerate().filter(|(_, policy)| policy.retry_after.count > 0);
    let policies: Vec<(usize, &PolicyFindings)> = policies.collect();
    if policies.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["Policy", ">Denials with a wait", ">Median", ">p90", ">p99", ">Longest"]);
    for (_, policy) in &policies {
        let waits = &policy.retry_after;
        let cells = [waits.p50_s, waits.p90_s, waits.p99_s, waits.max_s].map(seconds);
        table.row([escape::name(&policy.name, NAME), count(waits.count)].into_iter().chain(cells));
    }
    let text = "<p>A client that waits for this time is admitted if it sends nothing else meanwhile.</p>\n";
    let table = table.html("Waits in whole seconds, rounded up");
    section("Retry-After of the denials", &format!("{text}{table}{}", plots(&policies)))
}

fn plots(policies: &[(usize, &PolicyFindings)]) -> String {
    let steps = policies.iter().flat_map(|(_, policy)| &policy.retry_after.steps);
    let mut ends: Vec<u64> = steps.map(|step| step.up_to_s).collect();
    ends.sort_unstable();
    ends.dedup();
    if ends.is_empty() {
        return String::new();
    }
    let share_of = |policy: &PolicyFindings, end: u64| {
        let count = |step: &WaitStep| if step.up_to_s == end { step.count } else { 0 };
        ratio(policy.retry_after.steps.iter().map(count).sum(), policy.retry_after.count)
    };
    let values = |policy: &PolicyFindings| -> Vec<f64> { ends.iter().map(|end| share_of(policy, *end)).collect() };
    let max = policies.iter().flat_map(|(_, policy)| values(policy)).fold(0.0, f64::max);
    let names: Vec<String> = ends.iter().map(|end| seconds(*end)).collect();
    split("Waits", "the same scale", policies, SIDE_BY_SIDE, |title, policies| {
        let series: Vec<(&str, Style, Vec<f64>)> =
            policies.iter().map(|(i, policy)| (policy.name.as_str(), Style::Series(*i), values(policy))).collect();
        let x = Axis::names("wait of at most this time, and longer than the step before", names.clone());
        Plot::new(title, x, Axis::shares("share of the policy's denials", max))
            .about("for each step of waits, the share of denials")
            .grouped(&series, share)
    })
}
