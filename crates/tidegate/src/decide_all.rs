//! Several requests as one decision: all of them are charged, or none is.
//!
//! This module merges requests for the same policy and key before a decision, and combines their decisions afterwards. A
//! store decides the merged requests in between.

use std::cmp::Reverse;

use crate::{
    cost::Cost,
    decision::{DecidedBy, Decision, Decisions, Reason},
    key::Key,
    policy::{Mode, Policy},
};

/// The maximum number of requests in one decision.
const MAX_SPENDS: usize = 64;

/// One of several requests that are decided as one.
#[derive(Debug, Clone, Copy)]
pub struct Spend<'a> {
    /// The policy whose limits apply.
    pub policy: &'a Policy,
    /// The key that is counted.
    pub key: &'a Key<'a>,
    /// The units to spend.
    pub cost: Cost,
}

/// The reason why several requests cannot be decided as one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpendError {
    /// There are no requests, or too many.
    #[error("{parts} requests cannot be one decision: use 1 to 64")]
    Parts {
        /// The number of requests.
        parts: usize,
    },
    /// The costs of requests for the same policy and key add up to more than 10^12.
    #[error(
        "the costs of request {part} and of earlier ones for the same policy and key add up to more than 1000000000000"
    )]
    Sum {
        /// The index of the request that exceeded it.
        part: usize,
    },
    /// Two policies have the same name but different limits.
    #[error("request {part} has a policy with the same name as an earlier one but other limits: use one of them")]
    Conflict {
        /// The index of the later request.
        part: usize,
    },
    /// A request is for a policy with a limit on the units in open holds.
    #[error("request {part} has the limit `{max}/inflight`, which counts open holds: reserve instead")]
    InFlight {
        /// The index of the request.
        part: usize,
        /// The maximum of the limit.
        max: u64,
    },
    /// A store did not pass one state for each distinct request.
    #[error("{states} states for {requests} distinct requests: pass one state for each")]
    States {
        /// The number of states.
        states: usize,
        /// The number of distinct requests.
        requests: usize,
    },
}

/// Refuses to check or charge requests under a limit on the units in open holds.
///
/// # Errors
/// If there is such a request.
pub fn refuse_in_flight(spends: &[Spend<'_>]) -> Result<(), SpendError> {
    for (part, spend) in spends.iter().enumerate() {
        if let Some(limit) = spend.policy.limits().iter().find(|limit| limit.is_in_flight()) {
            return Err(SpendError::InFlight { part, max: limit.max() });
        }
    }
    Ok(())
}

/// Merges requests for the same policy and key into one request of the summed cost.
///
/// Returns the merged requests, and for each of `spends` the index of its merged request.
///
/// # Errors
/// See [`MemoryStore::decide_all`](crate::MemoryStore::decide_all).
pub fn distinct<'a>(spends: &[Spend<'a>]) -> Result<(Vec<Spend<'a>>, Vec<usize>), SpendError> {
    if spends.is_empty() || spends.len() > MAX_SPENDS {
        return Err(SpendError::Parts { parts: spends.len() });
    }
    let mut merged: Vec<Spend<'a>> = Vec::with_capacity(spends.len());
    let mut merged_into = Vec::with_capacity(spends.len());
    for (number, spend) in spends.iter().enumerate() {
        let is_same = |other: &Spend<'_>| other.policy.identity() == spend.policy.identity() && other.key == spend.key;
        let Some(index) = merged.iter().position(is_same) else {
            merged_into.push(merged.len());
            merged.push(*spend);
            continue;
        };
        let earlier = &mut merged[index];
        let same_limits = |a: &Policy, b: &Policy| {
            a.specs() == b.specs() && a.layout().id() == b.layout().id() && a.mode() == b.mode()
        };
        if !same_limits(earlier.policy, spend.policy) {
            return Err(SpendError::Conflict { part: number });
        }
        let sum = earlier.cost.get() + spend.cost.get();
        earlier.cost = Cost::new(sum).map_err(|_| SpendError::Sum { part: number })?;
        merged_into.push(index);
    }
    Ok((merged, merged_into))
}

/// Combines the decisions for `spends`, in their order, into one decision.
pub fn combine(spends: &[Spend<'_>], parts: Vec<Decision>) -> Decisions {
    let modes: Vec<Mode> = spends.iter().map(|spend| spend.policy.mode()).collect();
    Decisions { overall: overall(&modes, &parts), parts }
}

/// Combines the decisions of policies in these modes into one decision.
pub(crate) fn overall(modes: &[Mode], parts: &[Decision]) -> Decision {
    let all = || modes.iter().zip(parts).enumerate();
    let enforces = |mode: &Mode| *mode == Mode::Enforce;
    let any_enforces = modes.iter().any(enforces);
    let of_reason = |reason| move |(_, (_, decision)): &(usize, (&Mode, &Decision))| decision.reason == reason;

    let reason = [Reason::Banned, Reason::Impossible, Reason::StoreUnavailable, Reason::Limited, Reason::Shadow]
        .into_iter()
        .find(|reason| parts.iter().any(|decision| decision.reason == *reason))
        .unwrap_or(Reason::Allowed);
    // Shadow policies count only if all policies are in shadow mode, or if a shadow denial is the answer.
    let counts = |mode: &Mode, decision: &Decision| {
        enforces(mode) || !any_enforces || (reason == Reason::Shadow && decision.reason == Reason::Shadow)
    };
    let counted = || all().filter(|(_, (mode, decision))| counts(mode, decision));
    let decided = match reason {
        Reason::Allowed => {
            counted().min_by_key(|(_, (_, decision))| (decision.remaining, Reverse(decision.limit_reset_after_us)))
        }
        // First bans: those without an end, then the one that ends last. Then denials for which waiting does not help,
        // the smallest limit first. Then the longest wait.
        _ => all().filter(of_reason(reason)).min_by_key(|(_, (_, decision))| {
            match (decision.under, decision.retry_after_us) {
                (DecidedBy::Ban, None) => (0, Reverse(0), u64::MAX - decision.limit_reset_after_us),
                (DecidedBy::Ban, Some(end)) => (1, Reverse(end), u64::MAX - decision.limit_reset_after_us),
                (_, None) => (2, Reverse(0), decision.capacity),
                (_, Some(wait)) => (3, Reverse(wait), decision.capacity.saturating_sub(decision.used)),
            }
        }),
    };
    let (part, mut overall) = decided.map_or((0, parts[0]), |(part, (_, decision))| (part, *decision));
    overall.part = u16::try_from(part).unwrap_or(u16::MAX);
    for (_, (_, decision)) in counted() {
        overall.remaining = overall.remaining.min(decision.remaining);
        overall.reset_after_us = overall.reset_after_us.max(decision.reset_after_us);
    }
    overall.charged_at = parts.iter().filter_map(|decision| decision.charged_at).max();
    overall.degraded = parts.iter().any(|decision| decision.degraded);
    overall
}
