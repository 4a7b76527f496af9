//! Waits found by bisection, the limit that decided, and the complete decision.

use tidegate::Reason;

use super::{MAX_STORED, Micros, ModelLimit, ModelPolicy, ModelState, Units};

/// A decision in the numbers of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelDecision {
    /// Why the request was allowed or denied.
    pub reason: Reason,
    /// The position of the request that decided, among several.
    pub part: usize,
    /// The limit that decided.
    pub limit: ModelLimit,
    /// Units in use under that limit.
    pub used: Units,
    /// Units left under the limit that leaves the least.
    pub remaining: Units,
    /// The least wait after which the request is admitted.
    pub retry_after: Option<Micros>,
    /// The least wait after which no units are in use.
    pub reset_after: Micros,
    /// The time of the charge.
    pub charged_at: Option<Micros>,
    /// Whether an override of the key decided.
    pub overridden: bool,
}

/// One limit as a request finds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitState {
    /// The position of its request among several.
    pub(super) part: usize,
    pub(super) limit: ModelLimit,
    /// The reason of a decision over this limit alone.
    pub(super) reason: Reason,
    /// Whether an override denies the request because of another limit.
    pub(super) is_secondary: bool,
    pub(super) used: Units,
    pub(super) remaining: Units,
    /// `None` if the request is banned permanently. Has no meaning if it is impossible.
    pub(super) retry_after: Option<Micros>,
    pub(super) reset_after: Micros,
}

/// The least d in `from..=to` for which `is_true`, which stays true once it is true in that range.
pub(super) fn bisect(from: Micros, to: Micros, is_true: &dyn Fn(Micros) -> bool) -> Option<Micros> {
    if from > to || !is_true(to) {
        return None;
    }
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_true(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

impl ModelState {
    /// The least wait from `now` until `is_enough` is true of the units in use under limit `i`.
    pub(super) fn wait(
        &self,
        policy: &ModelPolicy,
        i: usize,
        now: Micros,
        is_enough: &dyn Fn(Units) -> bool,
    ) -> Micros {
        if !self.reservations.is_empty() {
            let is_enough_at = |d| is_enough(self.after_ends(policy, now + d).used(policy, i, now + d));
            return bisect(0, MAX_STORED, &is_enough_at).unwrap_or(MAX_STORED);
        }
        let same_shape = self.policy.as_ref().is_some_and(|stored| stored.same_shape(policy));
        if same_shape {
            let usage = self.histories[i].usage(policy.algorithm, policy.limits[i]);
            return bisect(0, MAX_STORED, &|d| is_enough(usage.at(self.effective_time(now + d)))).unwrap_or(MAX_STORED);
        }
        bisect(0, MAX_STORED, &|d| is_enough(self.used(policy, i, now + d))).unwrap_or(MAX_STORED)
    }

    /// Each limit of the policy as a request at `now` finds it.
    pub(super) fn limit_states(&self, policy: &ModelPolicy, cost: Units, now: Micros) -> Vec<LimitState> {
        let limit_state = |i: usize| {
            let (limit, used) = (policy.limits[i], self.used(policy, i, now));
            LimitState {
                part: 0,
                limit,
                reason: match limit.capacity {
                    capacity if cost > capacity => Reason::Impossible,
                    capacity if used + cost > capacity => Reason::Limited,
                    _ => Reason::Allowed,
                },
                is_secondary: false,
                used,
                remaining: (limit.capacity - used).max(0),
                retry_after: Some(self.wait(policy, i, now, &|used| used + cost <= limit.capacity)),
                reset_after: self.wait(policy, i, now, &|used| used == 0),
            }
        };
        (0..policy.limits.len()).map(limit_state).collect()
    }
}

/// The reason of a decision over these limits.
pub(super) fn reason(limits: &[LimitState]) -> Reason {
    let strongest_first = [Reason::Banned, Reason::Impossible, Reason::Limited];
    let found = strongest_first.into_iter().find(|reason| limits.iter().any(|limit| limit.reason == *reason));
    found.unwrap_or(Reason::Allowed)
}

/// The limit that decided.
pub(super) fn deciding_limit(reason: Reason, limits: &[LimitState]) -> LimitState {
    // The limit with the smallest rank decides. `min_by_key` returns the first of equals.
    let rank = |limit: &LimitState| match reason {
        Reason::Banned | Reason::Impossible if limit.reason != reason => (2, 0, 0),
        Reason::Banned => match limit.retry_after {
            None => (0, 0, -limit.reset_after),
            Some(wait) => (1, -wait, -limit.reset_after),
        },
        Reason::Impossible => (0, limit.limit.capacity, 0),
        Reason::Limited => (0, -limit.retry_after.unwrap_or(0), limit.remaining),
        _ => (0, limit.remaining, -limit.reset_after),
    };
    let primary = limits.iter().filter(|limit| !limit.is_secondary);
    *primary.min_by_key(|limit| rank(limit)).expect("a request has a limit")
}

/// The decision over these limits for a given reason.
pub(super) fn decision(reason: Reason, limits: &[LimitState], charged_at: Option<Micros>) -> ModelDecision {
    let deciding = deciding_limit(reason, limits);
    let retry_after = match reason {
        Reason::Limited => limits.iter().filter_map(|limit| limit.retry_after).max(),
        Reason::Banned => deciding.retry_after,
        _ => None,
    };
    ModelDecision {
        reason,
        part: deciding.part,
        limit: deciding.limit,
        used: deciding.used,
        remaining: limits.iter().map(|limit| limit.remaining).min().expect("a request has a limit"),
        retry_after,
        reset_after: limits.iter().map(|limit| limit.reset_after).max().expect("a request has a limit"),
        charged_at,
        overridden: false,
    }
}
