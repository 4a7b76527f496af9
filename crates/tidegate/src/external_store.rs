//! For stores outside this crate: the numbers a policy stands for, and the decision that what a store tells amounts to.
//!
//! A store elsewhere finds out for each limit how many units are in use, how long until the cost fits and how long until
//! nothing is in use, atomically, and charges if all fit. Which limit bound and what to say of it is decided here, so that
//! every store says the same.

use std::time::Duration;

use crate::{
    Limit,
    cost::Cost,
    decision::{Decision, Decisions, Reason, Refund},
    inspect::{Entry, InUse, Inspection},
    memory::{Op, Spend, SpendError, several},
    policy::{Mode, Policy},
    ruling,
    shape::{Kind, Rule},
    store::StoreError,
    timestamp::Timestamp,
    weigh::{self, Fit, Outcome, Standing},
};

/// The algorithm of a policy, for a store that has its own arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AlgorithmKind {
    /// `sliding_log`
    Log,
    /// `sliding_counter`
    Counter,
    /// `sliding_buckets`
    Buckets,
    /// `fixed_window`
    Fixed,
    /// `gcra`
    Gcra,
}

/// The numbers of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LimitNumbers {
    /// The window, in microseconds.
    pub window_us: u64,
    /// Buckets in a window; 1 for algorithms without.
    pub buckets: u64,
    /// Units that drain from a debt in a window; 0 for algorithms without.
    pub drain: u64,
    /// The most units that can be in use at once.
    pub capacity: u64,
}

/// What a store tells of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitStatus {
    /// Units in use after the decision.
    pub used: u64,
    /// How long until the cost fits, in microseconds; `None` if it does, or never will.
    pub retry_after_us: Option<u64>,
    /// How long until nothing is in use, in microseconds.
    pub reset_after_us: u64,
}

/// The algorithm of a policy.
pub fn algorithm_kind(policy: &Policy) -> AlgorithmKind {
    match policy.shape().kind() {
        Kind::Log => AlgorithmKind::Log,
        Kind::Counter => AlgorithmKind::Counter,
        Kind::Buckets => AlgorithmKind::Buckets,
        Kind::Fixed => AlgorithmKind::Fixed,
        Kind::Gcra => AlgorithmKind::Gcra,
    }
}

/// The numbers of each limit, in order.
pub fn limit_numbers(policy: &Policy) -> impl Iterator<Item = LimitNumbers> + '_ {
    policy.rules().iter().map(|rule| LimitNumbers {
        window_us: rule.grid.window.cast_unsigned(),
        buckets: rule.grid.buckets.cast_unsigned(),
        drain: rule.grid.drain,
        capacity: rule.capacity,
    })
}

/// The decision on a request, given the status of each limit of `policy`, in order; `charged_at` if it was charged.
///
/// # Errors
/// [`StoreError::InvalidAnswer`] if there is not one status for each limit, or if an allowed request has a retry time.
pub fn decision(
    policy: &Policy,
    op: Op,
    cost: Cost,
    told: &[LimitStatus],
    charged_at: Option<Timestamp>,
) -> Result<Decision, StoreError> {
    verify(policy, told)?;
    let fit = fit(policy, cost, told);
    let outcome = outcome(op, fit, charged_at);
    if outcome != Outcome::Denied && told.iter().any(|status| status.retry_after_us.is_some()) {
        return Err(StoreError::invalid("an allowed request has a retry time"));
    }
    let standings = standings(policy, told);
    let decision = weigh::told(policy.limits(), standings, weigh::reason(outcome, fit), charged_at);
    Ok(ruling::in_mode(decision, policy.mode()))
}

fn verify(policy: &Policy, told: &[LimitStatus]) -> Result<(), StoreError> {
    let matches = told.len() == policy.limits().len();
    matches.then_some(()).ok_or(StoreError::invalid("there is not one status for each limit of the policy"))
}

/// The decision under the limits of an [`Override`](crate::Override), `limits`, of which the store tells in their order how long to
/// wait for each; `retry_after_us` is the whole wait of a denial, over the end of the override: `None` if there is none.
///
/// # Errors
/// [`StoreError::InvalidAnswer`] if there is not one status for each limit.
pub fn decision_under(
    policy: &Policy,
    limits: &Policy,
    op: Op,
    cost: Cost,
    told: &[LimitStatus],
    charged_at: Option<Timestamp>,
    retry_after_us: Option<u64>,
) -> Result<Decision, StoreError> {
    verify(limits, told)?;
    let fit = fit(limits, cost, told);
    let became = (outcome(op, fit, charged_at), fit);
    let decision = ruling::limited(limits, standings(limits, told), became, retry_after_us, charged_at);
    Ok(ruling::in_mode(decision, policy.mode()))
}

/// The decision under a ban. For each of the policy's limits, `retry_after_us` of a denial is the time until the ban
/// ends: `None` if it has no end.
///
/// # Errors
/// [`StoreError::InvalidAnswer`] if there is not one status for each limit.
pub fn decision_banned(
    policy: &Policy,
    op: Op,
    told: &[LimitStatus],
    charged_at: Option<Timestamp>,
) -> Result<Decision, StoreError> {
    verify(policy, told)?;
    let outcome = outcome(op, Fit::Banned, charged_at);
    let until_end = told.first().and_then(|told| told.retry_after_us);
    let decision = ruling::banned(policy, standings(policy, told), outcome, until_end, charged_at);
    Ok(ruling::in_mode(decision, policy.mode()))
}

/// The decision for who is exempt.
pub fn decision_exempt(policy: &Policy) -> Decision {
    ruling::exempt(policy)
}

fn fit(limits: &Policy, cost: Cost, told: &[LimitStatus]) -> Fit {
    let (cost, rules) = (cost.get(), limits.rules());
    if rules.iter().any(|rule| cost > rule.capacity) {
        Fit::Impossible
    } else if rules.iter().zip(told).any(|(rule, told)| told.used + cost > rule.capacity) {
        Fit::Limited
    } else {
        Fit::Fits
    }
}

fn outcome(op: Op, fit: Fit, charged_at: Option<Timestamp>) -> Outcome {
    match (charged_at, fit) {
        (Some(_), _) => Outcome::Charged,
        (None, Fit::Fits) => Outcome::Spared,
        (None, _) if op == Op::Charge => Outcome::Spared,
        (None, _) => Outcome::Denied,
    }
}

fn standings(limits: &Policy, told: &[LimitStatus]) -> impl Iterator<Item = Standing> {
    let standing = |(rule, told): (&Rule, &LimitStatus)| Standing {
        used: told.used,
        remaining: rule.capacity.saturating_sub(told.used),
        capacity: rule.capacity,
        retry_after: told.retry_after_us,
        reset_after: told.reset_after_us,
    };
    limits.rules().iter().zip(told).map(standing)
}

/// The same decision, marked as not the one that the key's own state would give.
pub fn degraded(mut decision: Decision) -> Decision {
    decision.degraded = true;
    decision
}

/// A denial from `elapsed_us` microseconds ago, with its waits as of now. It is marked degraded, because the store was
/// not asked again.
pub fn remembered(mut decision: Decision, elapsed_us: u64) -> Decision {
    decision.retry_after_us = decision.retry_after_us.map(|wait| wait.saturating_sub(elapsed_us).max(1));
    decision.reset_after_us = decision.reset_after_us.saturating_sub(elapsed_us);
    decision.limit_reset_after_us = decision.limit_reset_after_us.saturating_sub(elapsed_us);
    degraded(decision)
}

/// The answer where the store can't be asked: let through uncounted, or denied. A policy in shadow mode never denies.
pub fn without_store(policy: &Policy, admit: bool) -> Decision {
    let nothing = Standing { used: 0, remaining: 0, capacity: 0, retry_after: None, reset_after: 0 };
    let standing =
        |rule: &Rule| Standing { remaining: if admit { rule.capacity } else { 0 }, capacity: rule.capacity, ..nothing };
    let reason = match (admit, policy.mode()) {
        (true, _) => Reason::Allowed,
        (false, Mode::Enforce) => Reason::StoreUnavailable,
        (false, Mode::Shadow) => Reason::Shadow,
    };
    degraded(weigh::told(policy.limits(), policy.rules().iter().map(standing), reason, None))
}

/// The answer to a refund that a store's words amount to.
pub fn refund(policy: &Policy, returned: bool, told: &[LimitStatus]) -> Refund {
    let left = policy.rules().iter().zip(told).map(|(rule, told)| rule.capacity.saturating_sub(told.used));
    Refund {
        returned,
        remaining: left.min().unwrap_or(0),
        reset_after_us: told.iter().map(|told| told.reset_after_us).max().unwrap_or(0),
    }
}

/// The answer to a refund under a ban, under which nothing is left.
pub fn refund_banned(policy: &Policy, returned: bool, told: &[LimitStatus]) -> Refund {
    Refund { remaining: 0, ..refund(policy, returned, told) }
}

/// The answer to a refund of who is exempt, to whom nothing is in use.
pub fn refund_exempt(policy: &Policy, returned: bool) -> Refund {
    let decision = ruling::exempt(policy);
    Refund { returned, remaining: decision.remaining, reset_after_us: decision.reset_after_us }
}

/// The requests with those of the same policy and key added up, and which of them each of `spends` belongs to.
///
/// # Errors
/// See [`MemoryStore::decide_all`](crate::MemoryStore::decide_all).
pub fn distinct<'a>(spends: &[Spend<'a>]) -> Result<(Vec<Spend<'a>>, Vec<usize>), SpendError> {
    several::distinct(spends)
}

/// The one decision that those of the parts amount to, given in the order of `spends`.
pub fn combine(spends: &[Spend<'_>], parts: Vec<Decision>) -> Decisions {
    Decisions { overall: several::combine(spends, &parts), parts }
}

/// What a store shows of one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitInspection {
    /// Units in use.
    pub used: u64,
    /// How long until nothing is in use, in microseconds.
    pub reset_after_us: u64,
    /// How long until fewer units are in use, in microseconds; 0 if none are.
    pub next_free_after_us: u64,
    /// The entries, oldest first.
    pub entries: Vec<Entry>,
    /// How many older ones there are.
    pub unlisted: usize,
}

/// What is shown of a key under the limits of `policy`, in their order.
pub fn inspection(policy: &Policy, newest_charge: Timestamp, limits: Vec<LimitInspection>) -> Inspection {
    let each = policy.limits().iter().zip(policy.rules()).zip(limits);
    let in_use = |((limit, rule), shown): ((&Limit, &Rule), LimitInspection)| InUse {
        limit: *limit,
        used: shown.used,
        remaining: rule.capacity.saturating_sub(shown.used),
        reset_after: Duration::from_micros(shown.reset_after_us),
        next_free_after: Duration::from_micros(shown.next_free_after_us),
        entries: shown.entries,
        unlisted: shown.unlisted,
    };
    Inspection { newest_charge, limits: each.map(in_use).collect() }
}

/// What tells the state of limits that a caller brings along from that of others: the algorithm and the windows, in any order.
pub fn unnamed_identity(policy: &Policy) -> String {
    policy.shape().describe()
}
