//! The replies to decisions and to the inspection of a key.

use tidegate::{Decision, Inspection, Reason};

use super::{command::ReplyFormat, reply::Replies, throttle};
use crate::{
    service::{PolicyDecision, PolicyDecisions},
    transports::decision_body::{DecisionBody, millis},
};

/// Writes a decision for one request.
#[inline]
pub(super) fn one(decided: &PolicyDecision<'_>, format: ReplyFormat, out: &mut Replies) {
    match format {
        ReplyFormat::Six => {
            let charged_at = decided.decision.charged_at().map_or(0, tidegate::Timestamp::as_micros);
            six(&decided.decision, charged_at, out);
        }
        ReplyFormat::Full => full(&DecisionBody::from(decided), out),
        ReplyFormat::Throttle { capacity, peeks } => throttle::write(&decided.decision, capacity, peeks, out),
    }
}

/// Writes a decision over several requests.
pub(super) fn several(decided: &PolicyDecisions<'_>, format: ReplyFormat, out: &mut Replies) {
    if format == ReplyFormat::Full {
        return full(&DecisionBody::from(decided), out);
    }
    let charged = decided.parts.iter().filter_map(|part| part.decision.charged_at()).max();
    six(&decided.overall, charged.map_or(0, tidegate::Timestamp::as_micros), out);
}

#[inline]
fn six(decision: &Decision, charged_at: u64, out: &mut Replies) {
    out.raw(if decision.is_allowed() { b"*6\r\n:1\r\n" } else { b"*6\r\n:0\r\n" });
    out.integer(decision.capacity());
    out.integer(decision.remaining());
    match (decision.reason(), decision.retry_after()) {
        (Reason::Impossible, _) => out.raw(b":-2\r\n"),
        (Reason::StoreUnavailable, _) => out.raw(b":-3\r\n"),
        (Reason::Banned, None) => out.raw(b":-4\r\n"),
        (_, Some(wait)) => out.integer(millis(wait)),
        (_, None) => out.raw(b":-1\r\n"),
    }
    out.integer(millis(decision.reset_after()));
    out.integer(charged_at);
}

/// Writes a decision with the names of the HTTP body.
fn full(body: &DecisionBody, out: &mut Replies) {
    out.map(10 + usize::from(body.checks.is_some()));
    out.named("allowed", |out| out.boolean(body.allowed));
    out.named("reason", |out| out.bulk(body.reason));
    out.named("policy", |out| match &body.policy {
        Some(name) => out.bulk(name),
        None => out.null(),
    });
    out.named("limit", |out| out.bulk(body.limit.to_string()));
    out.named("used", |out| out.integer(body.used));
    out.named("remaining", |out| out.integer(body.remaining));
    out.named("retry_after_ms", |out| out.optional(body.retry_after_ms));
    out.named("reset_after_ms", |out| out.integer(body.reset_after_ms));
    out.named("charged_at_us", |out| out.optional(body.charged_at_us));
    out.named("degraded", |out| out.boolean(body.degraded));
    if let Some(checks) = &body.checks {
        out.named("checks", |out| out.array(checks.len()));
        for check in checks {
            full(check, out);
        }
    }
}

/// Writes the state of a key.
pub(super) fn state(inspection: &Inspection, out: &mut Replies) {
    out.map(2);
    out.named("newest_charge_us", |out| out.integer(inspection.newest_charge.as_micros()));
    out.named("limits", |out| out.array(inspection.limits.len()));
    for in_use in &inspection.limits {
        out.map(6);
        out.named("limit", |out| out.bulk(in_use.limit.to_string()));
        out.named("used", |out| out.integer(in_use.used));
        out.named("remaining", |out| out.integer(in_use.remaining));
        out.named("reset_after_ms", |out| out.integer(millis(in_use.reset_after)));
        out.named("entries", |out| out.array(in_use.entries.len()));
        for entry in &in_use.entries {
            out.map(3);
            out.named("first_us", |out| out.integer(entry.first.as_micros()));
            out.named("last_us", |out| out.integer(entry.last.as_micros()));
            out.named("units", |out| out.integer(entry.units));
        }
        out.named("unlisted", |out| out.integer(in_use.unlisted));
    }
}
