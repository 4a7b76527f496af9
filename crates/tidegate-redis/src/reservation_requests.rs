//! The requests of operations on reservations as bytes, and the decisions in their replies;
//! `scripts/reservation_operations.lua` describes both.

use tidegate::{AtEnd, Cost, Decision, Hold, Lease, Op, Policy, external_store};

use crate::{
    decide::decision_of,
    error::Error,
    reply::{AppliedOverride, GrantReply, garbled},
    wire::put,
};

/// Which requests of a reservation an operation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// This one.
    Part = 0,
    /// All. The script does nothing if there are others, but shows them.
    Whole = 1,
    /// None: the script only shows the others.
    Show = 2,
}

/// A request for a hold. `others` has the ids of all requests of the reservation, if there are several.
pub(crate) fn reserve(policy: &Policy, hold: Hold, ttl_us: u64, nonce: [u8; 16], others: &[u8]) -> Vec<u8> {
    let kind = u8::from(hold.at_end() == AtEnd::Spent);
    let mut bytes = grant(policy, kind, ttl_us, nonce);
    bytes.extend_from_slice(others);
    bytes
}

/// A request for a lease. `settle` has the nonce of an earlier lease, and the units that were spent of it.
pub(crate) fn lease(
    policy: &Policy,
    lease: &Lease,
    ttl_us: u64,
    nonce: [u8; 16],
    settle: Option<([u8; 16], u64)>,
) -> Vec<u8> {
    let mut bytes = grant(policy, 2, ttl_us, nonce);
    put(&mut bytes, lease.asked.get(), 7);
    bytes.push(u8::from(settle.is_some()));
    let (earlier, spent) = settle.unwrap_or_default();
    bytes.extend_from_slice(&earlier);
    put(&mut bytes, spent, 7);
    bytes
}

fn grant(policy: &Policy, kind: u8, ttl_us: u64, nonce: [u8; 16]) -> Vec<u8> {
    let mut bytes = vec![kind];
    put(&mut bytes, ttl_us, 7);
    bytes.extend_from_slice(&nonce);
    put(&mut bytes, policy.reservation_bounds().max_reservations().into(), 4);
    bytes
}

/// A request to commit, renew or settle; `number` is the units or the ttl.
pub(crate) fn change(scope: Scope, nonce: [u8; 16], number: u64) -> Vec<u8> {
    let mut bytes = vec![scope as u8];
    bytes.extend_from_slice(&nonce);
    put(&mut bytes, number, 7);
    bytes
}

/// The decision on a reserve, or on a lease that was denied.
pub(crate) fn decision_of_reserve(reply: &GrantReply<'_>, policy: &Policy, cost: Cost) -> Result<Decision, Error> {
    let GrantReply { key, full_for_us } = reply;
    let other = match &key.applied {
        None => None,
        Some(AppliedOverride::Limits(limits)) => Some(limits.decode()?),
        Some(AppliedOverride::Ban | AppliedOverride::Exempt) => {
            return decision_of(key, policy, Op::Check, cost, key.charged.then_some(key.at));
        }
    };
    let charged_at = key.charged.then_some(key.at);
    let (limits, wait) = (key.limits(), key.whole_wait_us);
    external_store::decision_of_reserve(policy, other.as_ref(), cost, &limits, charged_at, wait, *full_for_us)
        .map_err(garbled)
}

/// The decision after an operation that charges nothing.
pub(crate) fn decision_after(reply: &crate::reply::KeyReply<'_>, policy: &Policy) -> Result<Decision, Error> {
    decision_of(reply, policy, Op::Charge, Cost::ONE, None)
}
