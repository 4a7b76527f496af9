//! The answer to a request: from the state of a key to a [`Decision`].
//!
//! [`fit`] checks whether a cost fits. This module builds the decision and selects the limit that it describes.
//! [`one_limit`] does both at once for a policy of one limit, and [`overridden`] answers for a key with an override.

pub(crate) mod fit;
pub(crate) mod one_limit;
pub(crate) mod overridden;

use std::cmp::Reverse;

pub(crate) use fit::{Fit, FitCheck, Moment, check_fit, wait};

use crate::{
    algorithms::LimitState,
    decision::{DecidedBy, Decision, Reason},
    layout::LimitSpec,
    limit::Limit,
    limit_states::StateView,
    op::Op,
    policy::Mode,
    timestamp::{SATURATION, Timestamp},
};

/// The effect of a decision on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The request was charged.
    Charged,
    /// The request was not charged, but not because of its cost: it was a peek, or another request of the same decision
    /// was denied.
    NotCharged,
    /// The request does not fit and was not charged.
    Denied,
}

impl Outcome {
    /// The outcome of a single request.
    pub(crate) fn new(op: Op, fits: bool) -> Self {
        match (op, fits) {
            (Op::Check, true) | (Op::Charge, _) => Self::Charged,
            (Op::Peek, true) => Self::NotCharged,
            (Op::Check | Op::Peek, false) => Self::Denied,
        }
    }

    pub(crate) fn reason(self, fit: Fit) -> Reason {
        match (self, fit) {
            (Self::Denied, Fit::Limited) => Reason::Limited,
            (Self::Denied, Fit::Impossible) => Reason::Impossible,
            (Self::Denied, Fit::Banned) => Reason::Banned,
            _ => Reason::Allowed,
        }
    }

    pub(crate) fn charged_at(self, moment: Moment) -> Option<Timestamp> {
        (self == Self::Charged).then(|| moment.charged_at())
    }
}

/// The answer of one limit, after the decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitAnswer {
    pub(crate) used: u64,
    pub(crate) remaining: u64,
    pub(crate) capacity: u64,
    pub(crate) retry_after: Option<u64>,
    pub(crate) reset_after: u64,
}

/// The decision, given the state after it.
#[inline]
pub(crate) fn answer(
    limits: &[Limit],
    view: StateView<'_>,
    moment: Moment,
    cost: u64,
    check: &FitCheck,
    outcome: Outcome,
) -> Decision {
    let answers = limit_answers(view, moment, cost, check, outcome);
    decision(limits, answers, outcome.reason(check.fit), outcome.charged_at(moment))
}

/// The answer of each limit, given the state after the decision.
#[inline]
pub(crate) fn limit_answers<'a>(
    view: StateView<'a>,
    moment: Moment,
    cost: u64,
    check: &'a FitCheck,
    outcome: Outcome,
) -> impl Iterator<Item = LimitAnswer> + 'a {
    let answer =
        move |(i, spec): (usize, &LimitSpec)| LimitAnswer::new(&view, spec, moment, cost, check.used[i], outcome);
    view.specs.iter().enumerate().map(answer)
}

/// The decision over all limits. It describes the limit that decided.
pub(crate) fn decision(
    limits: &[Limit],
    answers: impl Iterator<Item = LimitAnswer>,
    reason: Reason,
    charged_at: Option<Timestamp>,
) -> Decision {
    let mut answers = limits.iter().zip(answers);
    let (mut limit, mut decided) = answers.next().expect("a policy has at least one limit, and each has an answer");
    let (mut remaining, mut reset_after) = (decided.remaining, decided.reset_after);
    for (other_limit, answer) in answers {
        remaining = remaining.min(answer.remaining);
        reset_after = reset_after.max(answer.reset_after);
        if answer.decides_over(&decided, reason) {
            (limit, decided) = (other_limit, answer);
        }
    }
    Decision {
        reason,
        degraded: false,
        leased: false,
        part: 0,
        under: DecidedBy::Policy,
        limit: *limit,
        capacity: decided.capacity,
        used: decided.used,
        remaining,
        retry_after_us: decided.retry_after.filter(|_| matches!(reason, Reason::Limited | Reason::Banned)),
        reset_after_us: reset_after,
        limit_reset_after_us: decided.reset_after,
        charged_at,
    }
}

/// The decision of a policy in `mode`: a shadow policy never denies.
pub(crate) fn in_mode(mut decision: Decision, mode: Mode) -> Decision {
    if mode == Mode::Shadow && !decision.is_allowed() {
        decision.reason = Reason::Shadow;
    }
    decision
}

impl LimitAnswer {
    /// The answer of a limit with `used` units in use and nothing to wait for.
    pub(crate) fn with_used(spec: &LimitSpec, used: u64) -> Self {
        let (capacity, remaining) = (spec.capacity, spec.capacity.saturating_sub(used));
        Self { used, remaining, capacity, retry_after: None, reset_after: 0 }
    }

    #[inline]
    fn new(view: &StateView<'_>, spec: &LimitSpec, moment: Moment, cost: u64, before: u64, outcome: Outcome) -> Self {
        let wait_for = |level| wait(view.falls_to(spec, level, moment.at), moment.now);
        let is_gcra = || matches!(view.states.get(spec.state), Some(LimitState::Gcra(_)));
        let used = match outcome {
            // A debt saturates, so it may contain less than was charged.
            Outcome::Charged if is_gcra() => view.used(spec, moment.at),
            Outcome::Charged => (before + cost).min(SATURATION),
            _ => before,
        };
        let fits = cost <= spec.capacity && before + cost <= spec.capacity;
        let limited = outcome == Outcome::Denied && !fits && cost <= spec.capacity;
        Self {
            used,
            remaining: spec.capacity.saturating_sub(used),
            capacity: spec.capacity,
            retry_after: limited.then(|| wait_for(spec.capacity - cost)),
            reset_after: if used == 0 { 0 } else { wait_for(0) },
        }
    }

    /// Whether this limit decided rather than `other`, an earlier limit of the policy.
    fn decides_over(&self, other: &Self, reason: Reason) -> bool {
        match reason {
            Reason::Limited => {
                let rank = |answer: &Self| (answer.retry_after, Reverse(answer.remaining));
                rank(self) > rank(other)
            }
            Reason::Impossible => self.capacity < other.capacity,
            _ => {
                let rank = |answer: &Self| (Reverse(answer.remaining), answer.reset_after);
                rank(self) > rank(other)
            }
        }
    }
}
