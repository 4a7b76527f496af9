//! For authors of stores outside this crate.
//!
//! A store that keeps its state in this process's types uses [`KeyState`], which has all the arithmetic: see its example.
//!
//! A store with its own arithmetic (for example in a script on a server) needs the other functions. It determines for each
//! limit, in one atomic step, the units in use, the time until the cost fits and the time until no units are in use, and
//! it charges if the cost fits under all limits. [`decision`] selects the limit that decided and builds the answer, so that
//! all stores give the same answer.

use std::time::Duration;

use crate::{
    Limit,
    answer::{self, Fit, LimitAnswer, Outcome, in_mode, overridden},
    cost::Cost,
    decision::{Decision, Reason, Refund},
    inspect::{Entry, InUse, Inspection},
    layout::LimitSpec,
    op::Op,
    policy::{Mode, Policy},
    reservation::{Lease, ReservationError, Settled, checked_amount},
    store::StoreError,
    timestamp::Timestamp,
};
pub use crate::{
    algorithm::AlgorithmKind,
    decide_all::{combine, distinct, refuse_in_flight},
    decision::DecidedBy,
    decision_fields::DecisionFields,
    key_state::{KeyState, change_parts, decide_all, reserve_all},
    memory::{Fingerprints, nonce},
};

/// The numbers of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LimitNumbers {
    /// The window, in microseconds.
    pub window_us: u64,
    /// Buckets in a window; 1 for algorithms without buckets.
    pub buckets: u64,
    /// Units that drain from a debt in a window; 0 for algorithms without a debt.
    pub drain: u64,
    /// The maximum number of units in use.
    pub capacity: u64,
}

/// The status of one limit after a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitStatus {
    /// Units in use after the decision.
    pub used: u64,
    /// The time until the cost fits, in microseconds; `None` if it fits now or never.
    pub retry_after_us: Option<u64>,
    /// The time until no units are in use, in microseconds.
    pub reset_after_us: u64,
}

/// The algorithm of a policy.
pub fn algorithm_kind(policy: &Policy) -> AlgorithmKind {
    policy.layout().kind()
}

/// The numbers of each limit, in order.
pub fn limit_numbers(policy: &Policy) -> impl Iterator<Item = LimitNumbers> + '_ {
    policy.specs().iter().map(|spec| LimitNumbers {
        window_us: spec.grid.window.cast_unsigned(),
        buckets: spec.grid.buckets.cast_unsigned(),
        drain: spec.grid.drain,
        capacity: spec.capacity,
    })
}

/// The decision, given the status of each limit after it. `charged_at` is the time of the charge, if the store charged.
///
/// # Errors
/// [`StoreError::InvalidAnswer`] if there is not one status for each limit, or if an allowed request has a retry time.
pub fn decision(
    policy: &Policy,
    op: Op,
    cost: Cost,
    limits: &[LimitStatus],
    charged_at: Option<Timestamp>,
) -> Result<Decision, StoreError> {
    verify(policy, limits)?;
    let fit = fit(policy, cost, limits);
    let outcome = outcome(op, fit, charged_at);
    if outcome != Outcome::Denied && limits.iter().any(|status| status.retry_after_us.is_some()) {
        return Err(StoreError::invalid("an allowed request has a retry time"));
    }
    let decision = answer::decision(policy.limits(), limit_answers(policy, limits), outcome.reason(fit), charged_at);
    Ok(in_mode(decision, policy.mode()))
}

fn verify(policy: &Policy, limits: &[LimitStatus]) -> Result<(), StoreError> {
    let is_complete = limits.len() == policy.limits().len();
    is_complete.then_some(()).ok_or(StoreError::invalid("there is not one status for each limit of the policy"))
}

/// The decision under the limits of an [`Override`](crate::Override). `limits` has the status of each of `override_limits`,
/// in their order. `retry_after_us` is the whole wait of a denial, which may go beyond the end of the override; `None` if
/// waiting does not help.
///
/// # Errors
/// [`StoreError::InvalidAnswer`] if there is not one status for each limit.
pub fn decision_under(
    policy: &Policy,
    override_limits: &Policy,
    op: Op,
    cost: Cost,
    limits: &[LimitStatus],
    charged_at: Option<Timestamp>,
    retry_after_us: Option<u64>,
) -> Result<Decision, StoreError> {
    verify(override_limits, limits)?;
    let fit = fit(override_limits, cost, limits);
    let outcome = (outcome(op, fit, charged_at), fit);
    let answers = limit_answers(override_limits, limits);
    let decision = overridden::limited(override_limits, answers, outcome, retry_after_us, charged_at);
    Ok(in_mode(decision, policy.mode()))
}

/// The decision under a ban. For each of the policy's limits, `retry_after_us` of a denial is the time until the ban
/// ends: `None` if it has no end.
///
/// # Errors
/// [`StoreError::InvalidAnswer`] if there is not one status for each limit.
pub fn decision_banned(
    policy: &Policy,
    op: Op,
    limits: &[LimitStatus],
    charged_at: Option<Timestamp>,
) -> Result<Decision, StoreError> {
    verify(policy, limits)?;
    let outcome = outcome(op, Fit::Banned, charged_at);
    let until_end = limits.first().and_then(|status| status.retry_after_us);
    let decision = overridden::banned(policy, limit_answers(policy, limits), outcome, until_end, charged_at);
    Ok(in_mode(decision, policy.mode()))
}

/// The decision for an exempt key.
pub fn decision_exempt(policy: &Policy) -> Decision {
    overridden::exempt(policy)
}

fn fit(limits: &Policy, cost: Cost, statuses: &[LimitStatus]) -> Fit {
    Fit::new(limits.specs(), statuses.iter().map(|status| status.used), cost.get())
}

fn outcome(op: Op, fit: Fit, charged_at: Option<Timestamp>) -> Outcome {
    match (charged_at, fit) {
        (Some(_), _) => Outcome::Charged,
        (None, Fit::Fits) => Outcome::NotCharged,
        (None, _) if op == Op::Charge => Outcome::NotCharged,
        (None, _) => Outcome::Denied,
    }
}

fn limit_answers(limits: &Policy, statuses: &[LimitStatus]) -> impl Iterator<Item = LimitAnswer> {
    limits.specs().iter().zip(statuses).map(|(spec, status)| LimitAnswer {
        retry_after: status.retry_after_us,
        reset_after: status.reset_after_us,
        ..LimitAnswer::with_used(spec, status.used)
    })
}

/// The same decision, marked as degraded: the key's own state would give another one.
pub fn degraded(mut decision: Decision) -> Decision {
    decision.degraded = true;
    decision
}

/// A denial from `elapsed_us` microseconds ago, with its waits counted from now. It is marked as degraded, because the
/// store was not called again.
pub fn remembered(decision: Decision, elapsed_us: u64) -> Decision {
    degraded(still_denied(decision, elapsed_us))
}

/// The admission of a request by a node, under a lease that the store granted `elapsed_us` microseconds ago with the
/// decision `granted`. `left` is what is left of the node's leases after the request.
pub fn admitted_under_lease(
    mut granted: Decision,
    left: u64,
    elapsed_us: u64,
    charged_at: Option<Timestamp>,
) -> Decision {
    granted.reason = Reason::Allowed;
    granted.leased = true;
    granted.used = granted.used.saturating_sub(left);
    granted.remaining = left.min(granted.capacity);
    granted.retry_after_us = None;
    granted.charged_at = charged_at;
    since(granted, elapsed_us)
}

/// A denial of the store from `elapsed_us` microseconds ago that is still true, with its waits counted from now.
pub fn still_denied(mut denied: Decision, elapsed_us: u64) -> Decision {
    denied.retry_after_us = denied.retry_after_us.map(|wait| wait.saturating_sub(elapsed_us).max(1));
    since(denied, elapsed_us)
}

/// The decision with its times until no units are in use counted from `elapsed_us` microseconds later.
fn since(mut decision: Decision, elapsed_us: u64) -> Decision {
    decision.reset_after_us = decision.reset_after_us.saturating_sub(elapsed_us);
    decision.limit_reset_after_us = decision.limit_reset_after_us.saturating_sub(elapsed_us);
    decision
}

/// Whether two policies decide alike: by the same state, algorithm, limits and mode, with leases of the same term.
pub fn decide_alike(one: &Policy, other: &Policy) -> bool {
    one.decides_as(other)
}

/// The decision without the store: admitted and not counted, or denied. A policy in shadow mode never denies.
pub fn without_store(policy: &Policy, admit: bool) -> Decision {
    let used = |spec: &LimitSpec| if admit { 0 } else { spec.capacity };
    let answer = |spec: &LimitSpec| LimitAnswer { used: 0, ..LimitAnswer::with_used(spec, used(spec)) };
    let reason = match (admit, policy.mode()) {
        (true, _) => Reason::Allowed,
        (false, Mode::Enforce) => Reason::StoreUnavailable,
        (false, Mode::Shadow) => Reason::Shadow,
    };
    degraded(answer::decision(policy.limits(), policy.specs().iter().map(answer), reason, None))
}

/// The answer to a refund, given the status of each limit after it.
pub fn refund(policy: &Policy, returned: bool, limits: &[LimitStatus]) -> Refund {
    let remaining = policy.specs().iter().zip(limits).map(|(spec, status)| spec.capacity.saturating_sub(status.used));
    Refund {
        returned,
        remaining: remaining.min().unwrap_or(0),
        reset_after_us: limits.iter().map(|status| status.reset_after_us).max().unwrap_or(0),
    }
}

/// The answer of a node that took units back into its own lease, or that dropped the refund. `peeked` says what remains.
pub fn refund_by_node(peeked: &Decision, returned: bool) -> Refund {
    Refund { returned, remaining: peeked.remaining, reset_after_us: peeked.reset_after_us }
}

/// The answer to a refund, as another process gave it.
pub fn refund_of(returned: bool, remaining: u64, reset_after_us: u64) -> Refund {
    Refund { returned, remaining, reset_after_us }
}

/// The answer to a refund under a ban: no units remain.
pub fn refund_banned(policy: &Policy, returned: bool, limits: &[LimitStatus]) -> Refund {
    Refund { remaining: 0, ..refund(policy, returned, limits) }
}

/// The answer to a refund for an exempt key: no units are in use.
pub fn refund_exempt(policy: &Policy, returned: bool) -> Refund {
    overridden::refund_exempt(policy, returned)
}

/// The denial of a check or a charge under a limit on the units in open holds.
pub fn impossible(policy: &Policy) -> Decision {
    let unused = policy.specs().iter().map(|spec| LimitAnswer::with_used(spec, 0));
    in_mode(answer::decision(policy.limits(), unused, Reason::Impossible, None), policy.mode())
}

/// The ttl of a hold under a policy, in microseconds.
///
/// # Errors
/// If it is out of range.
pub fn hold_ttl_us(policy: &Policy, ttl: Duration) -> Result<u64, ReservationError> {
    policy.reservation_bounds().hold_ttl(ttl).map(i64::cast_unsigned)
}

/// The ttl of a lease under a policy, in microseconds.
///
/// # Errors
/// If the lease is malformed.
pub fn lease_ttl_us(policy: &Policy, lease: &Lease) -> Result<u64, ReservationError> {
    lease.checked_ttl(policy).map(i64::cast_unsigned)
}

/// Checks the units that were spent of a reservation.
///
/// # Errors
/// If they are out of range.
pub fn check_amount(units: u64) -> Result<(), ReservationError> {
    checked_amount(units).map(drop)
}

/// Refuses a check or a charge under a limit on the units in open holds.
///
/// # Errors
/// If the policy has such a limit.
pub fn refuse_policy_in_flight(policy: &Policy) -> Result<(), ReservationError> {
    crate::reservation::refuse_in_flight(policy)
}

/// The decision on a reserve, given the status of each limit after it. `full_for_us` is the time until another
/// reservation of the key may be open, if it has too many. Under an override, `override_limits` has its limits, and
/// `retry_after_us` is the whole wait of a denial.
///
/// # Errors
/// [`StoreError::InvalidAnswer`] if there is not one status for each limit.
pub fn decision_of_reserve(
    policy: &Policy,
    override_limits: Option<&Policy>,
    cost: Cost,
    limits: &[LimitStatus],
    charged_at: Option<Timestamp>,
    retry_after_us: Option<u64>,
    full_for_us: Option<u64>,
) -> Result<Decision, StoreError> {
    let in_force = override_limits.unwrap_or(policy);
    verify(in_force, limits)?;
    let units_fit = fit(in_force, cost, limits);
    let fit = if full_for_us.is_some() && units_fit == Fit::Fits { Fit::Limited } else { units_fit };
    let outcome = outcome(Op::Check, fit, charged_at);
    let answers = limit_answers(in_force, limits);
    let longer = |wait: Option<u64>| match (wait, full_for_us) {
        (Some(wait), Some(full)) => Some(wait.max(full)),
        (None, full) if units_fit == Fit::Fits => full,
        (wait, _) => wait,
    };
    let decision = if override_limits.is_some() {
        overridden::limited(in_force, answers, (outcome, fit), longer(retry_after_us), charged_at)
    } else {
        let mut decision = answer::decision(policy.limits(), answers, outcome.reason(fit), charged_at);
        if decision.reason == Reason::Limited {
            decision.retry_after_us = longer(decision.retry_after_us);
        }
        decision
    };
    Ok(in_mode(decision, policy.mode()))
}

/// Combines the decisions on the requests of one reservation, under these policies, into one decision.
pub fn overall(policies: &[&Policy], decisions: &[Decision]) -> Decision {
    let modes: Vec<Mode> = policies.iter().map(|policy| policy.mode()).collect();
    crate::decide_all::overall(&modes, decisions)
}

/// The answer to an operation on a reservation that was never granted.
pub fn unknown_reservation(policy: &Policy) -> Settled {
    let unused = policy.specs().iter().map(|spec| LimitAnswer::with_used(spec, 0));
    Settled { decision: answer::decision(policy.limits(), unused, Reason::Allowed, None), known: false }
}

/// The state of one limit, as a store inspects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitInspection {
    /// Units in use.
    pub used: u64,
    /// The time until no units are in use, in microseconds.
    pub reset_after_us: u64,
    /// The time until fewer units are in use, in microseconds; 0 if none are.
    pub next_free_after_us: u64,
    /// The entries, oldest first.
    pub entries: Vec<Entry>,
    /// The number of older entries that are not listed.
    pub unlisted: usize,
}

/// The state of a key under the limits of `policy`, in their order.
pub fn inspection(policy: &Policy, newest_charge: Timestamp, limits: Vec<LimitInspection>) -> Inspection {
    let each = policy.limits().iter().zip(policy.specs()).zip(limits);
    let in_use = |((limit, spec), inspected): ((&Limit, &LimitSpec), LimitInspection)| InUse {
        limit: *limit,
        used: inspected.used,
        remaining: spec.capacity.saturating_sub(inspected.used),
        reset_after: Duration::from_micros(inspected.reset_after_us),
        next_free_after: Duration::from_micros(inspected.next_free_after_us),
        entries: inspected.entries,
        unlisted: inspected.unlisted,
    };
    Inspection { newest_charge, limits: each.map(in_use).collect(), reservations: Vec::new() }
}

/// The text that identifies the state of a policy: policies with the same text share the state of a key.
///
/// For a policy with a name, it is `named`, a space and the name. For limits without a name, it is `unnamed`, a space and
/// the [algorithm and the windows](unnamed_identity). It never changes for the same policy, so a store can write it to
/// disk.
pub fn policy_identity(policy: &Policy) -> String {
    policy.identity_text()
}

/// The text that identifies the state of limits without a policy name: the algorithm and the windows, in any order.
pub fn unnamed_identity(policy: &Policy) -> String {
    policy.layout().description(policy.limits().iter().any(Limit::is_in_flight))
}
