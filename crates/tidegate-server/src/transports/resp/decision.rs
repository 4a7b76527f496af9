//! The replies to decisions and to the inspection of a key.

use std::time::Duration;

use tidegate::{Decision, Hold, Inspection, Lease, Reason, Refund, external_store::DecisionFields};

use super::{command::ReplyFormat, reply::Replies, throttle};
use crate::{
    service::{ChangedReservation, LeaseDecision, PolicyDecision, PolicyDecisions, ReservedDecision},
    transports::{
        decision_body::{DecisionBody, millis},
        reservation_body::{LeaseBody, ReservationBody, SettledBody},
    },
};

/// Writes a decision for one request.
#[inline]
pub(super) fn one(decided: &PolicyDecision<'_>, format: ReplyFormat, out: &mut Replies) {
    match format {
        ReplyFormat::Six => {
            let charged_at = decided.decision.charged_at().map_or(0, tidegate::Timestamp::as_micros);
            six(&decided.decision, charged_at, 0, out);
        }
        ReplyFormat::Full => full(&DecisionBody::from(decided), 0, out),
        ReplyFormat::Throttle { capacity, peeks } => throttle::write(&decided.decision, capacity, peeks, out),
    }
}

/// Writes a decision over several requests.
pub(super) fn several(decided: &PolicyDecisions<'_>, format: ReplyFormat, out: &mut Replies) {
    if format == ReplyFormat::Full {
        return full(&DecisionBody::from(decided), 0, out);
    }
    let charged = decided.parts.iter().filter_map(|part| part.decision.charged_at()).max();
    six(&decided.overall, charged.map_or(0, tidegate::Timestamp::as_micros), 0, out);
}

/// Writes the answer to a reserve: the six numbers and the id.
pub(super) fn reserved(
    reserved: &ReservedDecision<PolicyDecision<'_>>,
    hold: Hold,
    format: ReplyFormat,
    out: &mut Replies,
) {
    if format == ReplyFormat::Full {
        let body = ReservationBody::new(reserved, millis(hold.ttl()));
        full(&body.decision, 2, out);
        out.named("reservation", |out| optional_text(body.reservation.as_deref(), out));
        return out.named("ttl_ms", |out| out.optional(body.ttl_ms));
    }
    let decision = &reserved.decided.decision;
    six(decision, decision.charged_at().map_or(0, tidegate::Timestamp::as_micros), 1, out);
    optional_text(reserved.id.as_ref().map(ToString::to_string).as_deref(), out);
}

/// Writes the answer to a lease: the six numbers, the id and the granted units.
pub(super) fn leased(leased: &LeaseDecision<'_>, lease: &Lease, format: ReplyFormat, out: &mut Replies) {
    if format == ReplyFormat::Full {
        let body = LeaseBody::new(leased, lease);
        full(&body.decision, 4, out);
        out.named("reservation", |out| optional_text(body.reservation.as_deref(), out));
        out.named("granted", |out| out.integer(body.granted));
        out.named("ttl_ms", |out| out.optional(body.ttl_ms));
        return out.named("settled", |out| match body.settled {
            Some(settled) => out.boolean(settled),
            None => out.null(),
        });
    }
    let reserved = &leased.reserved;
    let decision = &reserved.decided.decision;
    six(decision, decision.charged_at().map_or(0, tidegate::Timestamp::as_micros), 2, out);
    optional_text(reserved.id.as_ref().map(ToString::to_string).as_deref(), out);
    out.integer(leased.granted);
}

/// Writes the answer to a commit, a release, a renew or a settle: 1 if the reservation was open.
pub(super) fn changed(changed: &ChangedReservation<'_>, format: ReplyFormat, out: &mut Replies) {
    if format == ReplyFormat::Full {
        let body = SettledBody::from(changed);
        full(&body.decision, 1, out);
        return out.named("known", |out| out.boolean(body.known));
    }
    out.integer(u8::from(changed.settled.known));
}

fn optional_text(text: Option<&str>, out: &mut Replies) {
    match text {
        Some(text) => out.bulk(text),
        None => out.null(),
    }
}

/// Writes the six numbers of a decision, in a list that has some more items.
#[inline]
fn six(decision: &Decision, charged_at: u64, more: usize, out: &mut Replies) {
    out.array(6 + more);
    out.raw(if decision.is_allowed() { b":1\r\n" } else { b":0\r\n" });
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

/// Writes a decision with the names of the HTTP body, in a map that has some more names.
fn full(body: &DecisionBody, more: usize, out: &mut Replies) {
    out.map(16 + usize::from(body.checks.is_some()) + more);
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
    exact(&body.exact, out);
    if let Some(checks) = &body.checks {
        out.named("checks", |out| out.array(checks.len()));
        for check in checks {
            full(check, 0, out);
        }
    }
}

/// Writes what the HTTP body leaves out or rounds, so that another service can make the same decision of the reply.
fn exact(fields: &DecisionFields, out: &mut Replies) {
    out.named("capacity", |out| out.integer(fields.capacity));
    out.named("retry_after_us", |out| out.optional(fields.retry_after_us));
    out.named("reset_after_us", |out| out.integer(fields.reset_after_us));
    out.named("limit_reset_after_us", |out| out.integer(fields.limit_reset_after_us));
    out.named("leased", |out| out.boolean(fields.leased));
    out.named("decided_by", |out| out.bulk(fields.decided_by.as_str()));
}

/// Writes the answer to a refund.
pub(super) fn refunded(refund: &Refund, format: ReplyFormat, out: &mut Replies) {
    if format != ReplyFormat::Full {
        return out.integer(u8::from(refund.is_returned()));
    }
    out.map(3);
    out.named("returned", |out| out.boolean(refund.is_returned()));
    out.named("remaining", |out| out.integer(refund.remaining()));
    out.named("reset_after_us", |out| out.integer(micros(refund.reset_after())));
}

fn micros(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)
}

/// Writes the state of a key.
pub(super) fn state(inspection: &Inspection, out: &mut Replies) {
    out.map(3);
    out.named("newest_charge_us", |out| out.integer(inspection.newest_charge.as_micros()));
    out.named("limits", |out| out.array(inspection.limits.len()));
    for in_use in &inspection.limits {
        out.map(8);
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
        out.named("reset_after_us", |out| out.integer(micros(in_use.reset_after)));
        out.named("next_free_after_us", |out| out.integer(micros(in_use.next_free_after)));
    }
    out.named("reservations", |out| out.array(inspection.reservations.len()));
    for open in &inspection.reservations {
        out.map(5);
        out.named("kind", |out| out.bulk(if open.is_lease { "lease" } else { "hold" }));
        out.named("units", |out| out.integer(open.units));
        out.named("granted_at_us", |out| out.integer(open.granted_at.as_micros()));
        out.named("until_us", |out| out.integer(open.until.as_micros()));
        out.named("expires", |out| out.bulk(open.at_end.as_str()));
    }
}
