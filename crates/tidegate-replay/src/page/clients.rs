//! The clients with the most denials: a table for each policy, and their histories under the main policy.

use super::{NAME, client_history, escape, section};
use crate::{
    findings::{DeniedClient, Findings, LimitFindings, PolicyFindings},
    formatting::{clip, count, duration, ratio, share, short_count},
    table::Table,
};

/// Number of histories that are drawn.
const HISTORIES: usize = 8;

pub(super) fn html(findings: &Findings) -> String {
    let mut policies = findings.policies.iter().filter(|policy| !policy.hardest_hit.is_empty());
    let Some(first) = policies.next() else { return String::new() };
    let others: String = policies.map(folded).collect();
    section("Clients with the most denials", &(table(first) + &histories(&first.hardest_hit) + &others))
}

/// Returns the table of a candidate, folded because it mostly names the same clients.
fn folded(policy: &PolicyFindings) -> String {
    let name = escape::name(&policy.name, NAME);
    format!("<details><summary>Most denials by {name}</summary>\n{}</details>\n", table(policy))
}

fn table(policy: &PolicyFindings) -> String {
    let peak = |limit: &LimitFindings| format!(">Peak in {}, limit {}", duration(limit.window_us), count(limit.max));
    let headings = ["Client", ">Requests", ">Denied", ">Share denied"].map(str::to_owned);
    let mut table = Table::new(headings.into_iter().chain(policy.limits.iter().map(peak)));
    for client in &policy.hardest_hit {
        let DeniedClient { requests, denied, peaks, .. } = client;
        let peaks = peaks
            .iter()
            .zip(&policy.limits)
            .map(|(peak, limit)| format!("{} ({}×)", count(*peak), short_count(ratio(*peak, limit.max))));
        let cells = [key(client), count(*requests), count(*denied), share(ratio(*denied, *requests))];
        table.row(cells.into_iter().chain(peaks));
    }
    let shown = policy.hardest_hit.len() as u64;
    let caption = match policy.clients_denied {
        all if all > shown => format!("{}: the first {shown} of {} clients denied", policy.name, count(all)),
        _ => format!("{}: all clients denied", policy.name),
    };
    table.html(&clip(&caption, 200))
}

fn key(client: &DeniedClient) -> String {
    format!("<span class=\"key\">{}</span>", escape::name(&client.key, 56))
}

fn histories(clients: &[DeniedClient]) -> String {
    let histories = clients.iter().filter_map(|client| Some((client, client.history.as_ref()?)));
    let histories = histories.filter(|(_, history)| !history.requested.is_empty()).take(HISTORIES);
    let histories: Vec<_> = histories.collect();
    let Some((_, first)) = histories.first() else { return String::new() };
    let drawn = histories.iter().map(|(client, history)| {
        format!("<div class=\"course\"><h3>{}</h3>\n{}</div>\n", key(client), client_history::html(history))
    });
    format!(
        "<p>Histories of the clients, from one window before the first denial. The shaded window is the one in which a client \
         requested the most.</p>\n{}<div class=\"courses\">\n{}</div>\n",
        client_history::legend(first),
        drawn.collect::<String>(),
    )
}
