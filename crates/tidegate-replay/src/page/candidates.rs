//! What each policy would have denied, beside the others: of requests, and of clients.

use super::plot::{Look, Rows};
use super::{NAME, Table, escape};
use crate::figures::{self, count, counted};
use crate::findings::{Findings, PolicyFindings};

pub(super) fn html(findings: &Findings) -> String {
    if findings.policies.is_empty() || findings.input.requests == 0 {
        return String::new();
    }
    let several = findings.policies.len() > 1;
    let heading = if several { "What each candidate would have denied" } else { "What would have been denied" };
    let denied = findings.policies.iter().any(|policy| policy.denied > 0);
    let plot = if several && denied { rows(findings) } else { String::new() };
    format!("<section>\n<h2>{heading}</h2>\n{}{plot}</section>\n", table(findings))
}

fn table(findings: &Findings) -> String {
    let policies = &findings.policies;
    let impossible = policies.iter().any(|policy| policy.impossible > 0);
    let bound = policies.iter().any(|policy| policy.limits.len() > 1);
    let algorithm = policies.iter().any(|policy| !policy.name.contains(&policy.algorithm));
    let mut heads = vec!["Policy"];
    heads.extend(algorithm.then_some("Limits and algorithm"));
    heads.extend([">Allowed", ">Denied", ">Share of requests", ">Clients denied", ">Share of clients"]);
    heads.extend(impossible.then_some(">Could never fit"));
    heads.extend(bound.then_some("Denials by the limit that bound"));
    let (requests, clients) = (findings.input.requests, findings.clients);
    let caption = format!("{} of {}", counted(requests, "request"), counted(clients, "client"));
    let mut table = Table::new(caption, &heads);
    for policy in policies {
        let mut cells = vec![escape::name(&policy.name, NAME)];
        cells.extend(algorithm.then(|| escape::name(&format!("{} {}", limits(policy), policy.algorithm), 60)));
        cells.extend([
            count(policy.allowed),
            count(policy.denied),
            figures::share(policy.share_of_requests_denied),
            count(policy.clients_denied),
            figures::share(policy.share_of_clients_denied),
        ]);
        cells.extend(impossible.then(|| count(policy.impossible)));
        cells.extend(bound.then(|| bounds(policy)));
        table.row(cells);
    }
    table.to_string()
}

fn limits(policy: &PolicyFindings) -> String {
    let limits: Vec<&str> = policy.limits.iter().map(|limit| limit.limit.as_str()).collect();
    limits.join(" and ")
}

fn bounds(policy: &PolicyFindings) -> String {
    let bound =
        |limit: &crate::findings::LimitFindings| format!("{}: {}", escape::name(&limit.limit, 24), count(limit.bound));
    policy.limits.iter().map(bound).collect::<Vec<_>>().join(", ")
}

fn rows(findings: &Findings) -> String {
    let mut rows = Rows::new("Share denied", "share denied, %", figures::share, figures::short_share)
        .about("for each policy, the share of requests and the share of clients that it would have denied")
        .series("of requests", Look::Series(0))
        .series("of clients, at least once", Look::Series(1));
    for policy in &findings.policies {
        rows = rows.row(&policy.name, &[policy.share_of_requests_denied, policy.share_of_clients_denied]);
    }
    rows.to_string()
}
