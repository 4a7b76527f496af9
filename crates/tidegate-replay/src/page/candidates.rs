//! The denials of each policy: of requests and of clients.

use super::{
    escape,
    plot::{BarRange, HorizontalBars, Style},
    policy_names, section,
};
use crate::{
    findings::{Findings, LimitFindings, PolicyFindings},
    formatting::{count, plural, share, short_share},
    table::Table,
};

pub(super) fn html(findings: &Findings) -> String {
    if findings.policies.is_empty() || findings.input.requests == 0 {
        return String::new();
    }
    let is_several = findings.policies.len() > 1;
    let heading = if is_several { "What each candidate would have denied" } else { "What would have been denied" };
    let is_denied = findings.policies.iter().any(|policy| policy.denied > 0);
    let shares = |policy: &PolicyFindings| vec![policy.share_of_requests_denied, policy.share_of_clients_denied];
    let groups = findings.policies.iter().map(|policy| (policy.name.as_str(), shares(policy))).collect();
    let plot = if is_several && is_denied { shares_denied("policy", groups) } else { String::new() };
    section(heading, &(table(findings) + &plot))
}

/// Returns a chart of the shares of requests and clients denied.
pub(super) fn shares_denied(what: &str, groups: Vec<(&str, Vec<f64>)>) -> String {
    let chart = HorizontalBars {
        title: "Share denied",
        about: &format!("for each {what}, the share of requests and the share of clients denied"),
        unit: "share denied, %",
        formats: (share, short_share),
        series: vec![("of requests", Style::Series(0)), ("of clients, at least once", Style::Series(1))],
        groups,
        range: BarRange::FromZero,
    };
    chart.html()
}

fn table(findings: &Findings) -> String {
    let policies = &findings.policies;
    let has_impossible = policies.iter().any(|policy| policy.impossible > 0);
    let has_limits = policies.iter().any(|policy| policy.limits.len() > 1);
    let has_algorithm = policies.iter().any(|policy| !policy.name.contains(&policy.algorithm));
    let mut headings = vec!["Policy"];
    headings.extend(has_algorithm.then_some("Limits and algorithm"));
    headings.extend([">Allowed", ">Denied", ">Share of requests", ">Clients denied", ">Share of clients"]);
    headings.extend(has_impossible.then_some(">Impossible"));
    headings.extend(has_limits.then_some("Denials by the limit that decided"));
    let mut table = Table::new(headings);
    for (policy, name) in policies.iter().zip(policy_names(findings)) {
        let mut cells = vec![name];
        cells.extend(has_algorithm.then(|| escape::name(&format!("{} {}", limits(policy), policy.algorithm), 60)));
        cells.extend([
            count(policy.allowed),
            count(policy.denied),
            share(policy.share_of_requests_denied),
            count(policy.clients_denied),
            share(policy.share_of_clients_denied),
        ]);
        cells.extend(has_impossible.then(|| count(policy.impossible)));
        cells.extend(has_limits.then(|| denials(policy)));
        table.row(cells);
    }
    table.html(&format!("{} of {}", plural(findings.input.requests, "request"), plural(findings.clients, "client")))
}

fn limits(policy: &PolicyFindings) -> String {
    policy.limits.iter().map(|limit| limit.limit.as_str()).collect::<Vec<_>>().join(" and ")
}

fn denials(policy: &PolicyFindings) -> String {
    let denials = |limit: &LimitFindings| format!("{}: {}", escape::name(&limit.limit, 24), count(limit.bound));
    policy.limits.iter().map(denials).collect::<Vec<_>>().join(", ")
}
