//! The clients with the most denials: a table for each policy, and their histories under the main policy.

use super::{client_history, escape, policy_names, section};
use crate::{
    findings::{DeniedClient, Findings, LimitFindings, PolicyFindings},
    formatting::{clip, count, duration, ratio, share, short_count},
    table::Table,
};

/// Maximum length of a key.
const KEY: usize = 56;

/// Number of histories that are drawn.
const HISTORIES: usize = 8;

pub(super) fn html(findings: &Findings) -> String {
    let policies = findings.policies.iter().zip(policy_names(findings));
    let mut policies = policies.filter(|(policy, _)| !policy.hardest_hit.is_empty());
    let Some((first, _)) = policies.next() else { return String::new() };
    let others: String = policies.map(|(policy, name)| folded(policy, &name)).collect();
    section("Clients with the most denials", &(table(first) + &histories(&first.hardest_hit) + &others))
}

/// Returns the table of a candidate, folded because it mostly names the same clients.
fn folded(policy: &PolicyFindings, name: &str) -> String {
    format!("<details><summary>Most denials by {name}</summary>\n{}</details>\n", table(policy))
}

fn table(policy: &PolicyFindings) -> String {
    let peak = |limit: &LimitFindings| match limit.window_us {
        0 => format!(">At once, limit {}", count(limit.max)),
        window_us => format!(">Peak in {}, limit {}", duration(window_us), count(limit.max)),
    };
    let headings = ["Client", ">Requests", ">Denied", ">Share denied"].map(str::to_owned);
    let mut table = Table::new(headings.into_iter().chain(policy.limits.iter().map(peak)));
    for (client, key) in policy.hardest_hit.iter().zip(keys(&policy.hardest_hit)) {
        let DeniedClient { requests, denied, peaks, .. } = client;
        let peaks = peaks
            .iter()
            .zip(&policy.limits)
            .map(|(peak, limit)| format!("{} ({}×)", count(*peak), short_count(ratio(*peak, limit.max))));
        let cells = [key, count(*requests), count(*denied), share(ratio(*denied, *requests))];
        table.row(cells.into_iter().chain(peaks));
    }
    let shown = policy.hardest_hit.len() as u64;
    let caption = match policy.clients_denied {
        all if all > shown => format!("{}: the first {shown} of {} clients denied", policy.name, count(all)),
        _ => format!("{}: all clients denied", policy.name),
    };
    table.html(&clip(&caption, 200))
}

/// Returns the keys of clients as HTML.
fn keys(clients: &[DeniedClient]) -> Vec<String> {
    let keys: Vec<&str> = clients.iter().map(|client| client.key.as_str()).collect();
    escape::names(&keys, KEY).into_iter().map(|key| format!("<span class=\"key\">{key}</span>")).collect()
}

fn histories(clients: &[DeniedClient]) -> String {
    let keys = keys(clients);
    let histories = clients.iter().zip(&keys).filter_map(|(client, key)| Some((key, client.history.as_ref()?)));
    let histories = histories.filter(|(_, history)| !history.requested.is_empty()).take(HISTORIES);
    let histories: Vec<_> = histories.collect();
    let Some((_, first)) = histories.first() else { return String::new() };
    let drawn = histories.iter().map(|(key, history)| {
        format!("<div class=\"course\"><h3>{key}</h3>\n{}</div>\n", client_history::html(history))
    });
    format!(
        "<p>Histories of the clients, from one window before the first denial. The shaded window is the one in which a client \
         requested the most.</p>\n{}<div class=\"courses\">\n{}</div>\n",
        client_history::legend(first),
        drawn.collect::<String>(),
    )
}
