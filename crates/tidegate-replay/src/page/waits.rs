//! The Retry-After times of denials.

use super::{
    plot::{BarRange, HorizontalBars, Style, split},
    policy_names, section,
};
use crate::{
    findings::{Findings, PolicyFindings, WaitStep},
    formatting::{count, ratio, seconds, share, short_share},
    table::Table,
};

/// Maximum number of policies in one chart.
const POLICIES: usize = 4;

pub(super) fn html(findings: &Findings) -> String {
    let policies = findings.policies.iter().enumerate().filter(|(_, policy)| policy.retry_after.count > 0);
    let policies: Vec<(usize, &PolicyFindings)> = policies.collect();
    if policies.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["Policy", ">Denials with a wait", ">Median", ">p90", ">p99", ">Longest"]);
    let names = policy_names(findings);
    for (number, policy) in &policies {
        let waits = &policy.retry_after;
        let cells = [waits.p50_s, waits.p90_s, waits.p99_s, waits.max_s].map(seconds);
        table.row([names[*number].clone(), count(waits.count)].into_iter().chain(cells));
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
    let all = policies.iter().flat_map(|(_, policy)| ends.iter().map(|end| share_of(policy, *end)));
    let max = all.fold(0.0, f64::max);
    let names: Vec<String> = ends.iter().map(|end| format!("up to {}", seconds(*end))).collect();
    split("Waits", "the same scale", policies, POLICIES, |title, policies| {
        let shares = |end: u64| policies.iter().map(|(_, policy)| share_of(policy, end)).collect();
        let chart = HorizontalBars {
            title,
            about: "for each step of waits, the share of denials with such a wait",
            unit: "share of the policy's denials",
            formats: (share, short_share),
            series: policies.iter().map(|(i, policy)| (policy.name.as_str(), Style::Series(*i))).collect(),
            groups: names.iter().map(String::as_str).zip(ends.iter().map(|end| shares(*end))).collect(),
            range: BarRange::UpTo(max),
        };
        chart.html()
    })
}
