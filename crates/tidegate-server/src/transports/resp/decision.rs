//! What a decision, and the state of a key, look like in RESP.

use tidegate::{Decision, Inspection, Reason};

use super::{command::Shape, reply::Replies, throttle};
use crate::{
    service::{Answer, Answers},
    transports::body::{Body, millis},
};

/// A decision over one.
#[inline]
pub(super) fn one(answer: &Answer<'_>, shape: Shape, out: &mut Replies) {
    match shape {
        Shape::Six => {
            let charged_at = answer.decision.charged_at().map_or(0, tidegate::Timestamp::as_micros);
            six(&answer.decision, charged_at, out);
        }
        Shape::Full => full(&Body::from(answer), out),
        Shape::Throttle { capacity, looks } => throttle::write(&answer.decision, capacity, looks, out),
    }
}

/// A decision over several.
pub(super) fn several(answers: &Answers<'_>, shape: Shape, out: &mut Replies) {
    if shape == Shape::Full {
        return full(&Body::from(answers), out);
    }
    let charged = answers.parts.iter().filter_map(|part| part.decision.charged_at()).max();
    let charged_at = charged.map_or(0, tidegate::Timestamp::as_micros);
    six(&answers.overall, charged_at, out);
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

/// A decision by name: the names are those of the HTTP body.
fn full(body: &Body, out: &mut Replies) {
    out.map(10 + usize::from(body.checks.is_some()));
    out.bulk("allowed");
    out.boolean(body.allowed);
    out.bulk("reason");
    out.bulk(body.reason);
    out.bulk("policy");
    match &body.policy {
        Some(name) => out.bulk(name),
        None => out.null(),
    }
    out.bulk("limit");
    out.bulk(body.limit.to_string());
    out.bulk("used");
    out.integer(body.used);
    out.bulk("remaining");
    out.integer(body.remaining);
    out.bulk("retry_after_ms");
    out.optional(body.retry_after_ms);
    out.bulk("reset_after_ms");
    out.integer(body.reset_after_ms);
    out.bulk("charged_at_us");
    out.optional(body.charged_at_us);
    out.bulk("degraded");
    out.boolean(body.degraded);
    if let Some(checks) = &body.checks {
        out.bulk("checks");
        out.array(checks.len());
        for check in checks {
            full(check, out);
        }
    }
}

/// The state of a key.
pub(super) fn state(inspection: &Inspection, out: &mut Replies) {
    out.map(2);
    out.bulk("newest_charge_us");
    out.integer(inspection.newest_charge.as_micros());
    out.bulk("limits");
    out.array(inspection.limits.len());
    for in_use in &inspection.limits {
        out.map(6);
        out.bulk("limit");
        out.bulk(in_use.limit.to_string());
        out.bulk("used");
        out.integer(in_use.used);
        out.bulk("remaining");
        out.integer(in_use.remaining);
        out.bulk("reset_after_ms");
        out.integer(millis(in_use.reset_after));
        out.bulk("entries");
        out.array(in_use.entries.len());
        for entry in &in_use.entries {
            out.map(3);
            out.bulk("first_us");
            out.integer(entry.first.as_micros());
            out.bulk("last_us");
            out.integer(entry.last.as_micros());
            out.bulk("units");
            out.integer(entry.units);
        }
        out.bulk("unlisted");
        out.integer(in_use.unlisted);
    }
}
