//! What limits on requests at once would deny, as text.

use std::fmt::Write as _;

use super::{WIDTH, chart::bar, paragraph, replay::STEPS, wrap};
use crate::{
    findings::{AtOnceFindings, AtOnceLimit},
    formatting::{count, share},
    table::Table,
    wording,
};

/// Writes a table of limits, and the limits to consider.
pub(super) fn write(out: &mut String, found: &AtOnceFindings, clients: u64) {
    let suggestions = wording::at_once_suggestions(found);
    let [(_, first), ..] = &suggestions[..] else { return };
    if first.effect.max <= 1 {
        let _ = writeln!(out, "\nNo client has two requests at once, so no limit on them denies a request.");
        return;
    }
    let _ = writeln!(out, "\nRequests that a limit on requests at once denies, and clients that it affects");
    let mut table = Table::new([">limit", ">denied", ">", ">clients", ">", ""]);
    for limit in shown(found) {
        let at = suggestions.iter().find(|(_, suggestion)| suggestion.effect.max == limit.max);
        let label = at.map(|(at, _)| format!(" ← {}", at.join(", "))).unwrap_or_default();
        let part = limit.share_of_requests_denied;
        let bar = format!("{}{label}", bar(part.unwrap_or(limit.share), 20));
        table.row([
            format!("{}/inflight", limit.max),
            limit.denied.map_or_else(|| "-".to_owned(), count),
            part.map(share).unwrap_or_default(),
            count(limit.touched),
            share(limit.share),
            bar,
        ]);
    }
    out.push_str(&table.text());
    if found.limits.iter().any(|limit| limit.denied.is_none()) {
        out.push_str(&paragraph(wording::AT_ONCE_COSTS));
    }
    let _ = writeln!(out, "Limits to consider for requests at once (to try one: --candidate {})", first.limit);
    for (at, suggestion) in &suggestions {
        let effect = wording::at_once_effect(&suggestion.effect, clients);
        out.push_str(&wrap(&format!("{} ({}) {effect}.", suggestion.limit, at.join(", ")), "  ", "    ", WIDTH - 2));
    }
}

/// Returns some of the limits, including the suggested ones.
fn shown(found: &AtOnceFindings) -> Vec<&AtOnceLimit> {
    let step = found.limits.len().div_ceil(STEPS).max(1);
    let suggested = found.suggestions.iter().map(|suggestion| &suggestion.effect);
    let mut limits: Vec<&AtOnceLimit> =
        found.limits.iter().step_by(step).chain(found.limits.last()).chain(suggested).collect();
    limits.sort_unstable_by_key(|limit| limit.max);
    limits.dedup_by_key(|limit| limit.max);
    limits
}
