//! The delays if clients wait for as long as `Retry-After` says.

use std::fmt::Write as _;

use super::{escape, policy_names, section};
use crate::{
    findings::Findings,
    formatting::{count, seconds, share},
    table::Table,
    wording,
};

pub(super) fn html(findings: &Findings) -> String {
    let policies = findings.policies.iter().zip(policy_names(findings));
    let policies: Vec<_> = policies.filter_map(|(policy, name)| Some((policy.obey.as_ref()?, name))).collect();
    if policies.is_empty() || findings.input.requests == 0 {
        return String::new();
    }
    let headings = [
        "Policy",
        ">Denials",
        ">Delayed requests",
        ">Share",
        ">Clients delayed",
        ">Median delay",
        ">p99",
        ">Longest",
        ">Served in the end",
    ];
    let mut table = Table::new(headings);
    let mut notes = String::new();
    for (obey, name) in &policies {
        let delay = |wait_s: u64| if obey.waits.count > 0 { seconds(wait_s) } else { "–".to_owned() };
        table.row([
            name.clone(),
            count(obey.denials),
            count(obey.delayed),
            share(obey.share_delayed),
            count(obey.clients_delayed),
            delay(obey.waits.p50_s),
            delay(obey.waits.p99_s),
            delay(obey.waits.max_s),
            count(obey.served),
        ]);
        let sentences = wording::obedience(obey);
        if !sentences.is_empty() {
            let _ = writeln!(notes, "<p>{name}: {}</p>", escape::text(&sentences.join(" ")));
        }
    }
    let text = format!("<p>{}</p>\n", wording::OBEDIENCE);
    section(
        "Delays if clients wait as they are told",
        &(text + &table.html("Delays in whole seconds, rounded up") + &notes),
    )
}
