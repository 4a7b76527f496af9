//! [`Fit`]: whether a cost fits under every limit of a policy.

use crate::{
    decision::{Decision, Reason},
    layout::LimitSpec,
    limit_states::StateView,
    policy::MAX_LIMITS,
    reservation::open::Reservations,
    timestamp::{SATURATION, Timestamp},
};

/// The time at which a request is decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// The time that the caller passed. Waits are counted from it.
    pub(crate) now: i64,
    /// The same time as the store reads it: never before the newest charge.
    pub(crate) at: i64,
}

impl Moment {
    /// The time of a charge.
    #[inline]
    pub(crate) fn charged_at(self) -> Timestamp {
        Timestamp::of(self.at)
    }
}

/// Whether a cost fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    Fits,
    Limited,
    Impossible,
    /// An override bans the key.
    Banned,
}

impl Fit {
    /// Whether `cost` also fits under a limit with `used` units in use.
    #[inline]
    fn and(self, spec: &LimitSpec, used: u64, cost: u64) -> Self {
        if cost > spec.capacity {
            Self::Impossible
        } else if used + cost > spec.capacity && self == Self::Fits {
            Self::Limited
        } else {
            self
        }
    }

    /// Whether `cost` fits, given the units in use under each limit.
    pub(crate) fn new(specs: &[LimitSpec], used: impl IntoIterator<Item = u64>, cost: u64) -> Self {
        specs.iter().zip(used).fold(Self::Fits, |fit, (spec, used)| fit.and(spec, used, cost))
    }
}

/// Whether a cost fits, and the units in use under each limit before the decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FitCheck {
    pub(crate) fit: Fit,
    pub(crate) used: [u64; MAX_LIMITS],
    /// The time at which the first reservation ends, if the key has too many for another one.
    pub(crate) full_until: Option<i64>,
}

/// Checks whether `cost` fits under every limit at `at`.
#[inline]
pub(crate) fn check_fit(view: StateView<'_>, at: i64, cost: u64) -> FitCheck {
    let mut fit = Fit::Fits;
    let mut used = [0; MAX_LIMITS];
    for (spec, used) in view.specs.iter().zip(&mut used) {
        *used = view.used(spec, at);
        fit = fit.and(spec, *used, cost);
    }
    FitCheck { fit, used, full_until: None }
}

impl FitCheck {
    /// Checks `cost` against limits under which no units are in use.
    pub(crate) fn of_unused(specs: &[LimitSpec], cost: u64) -> Self {
        let used = [0; MAX_LIMITS];
        Self { fit: Fit::new(specs, used, cost), used, full_until: None }
    }

    /// Denies another reservation if the key has `max` already.
    pub(crate) fn limit_reservations(&mut self, open: Option<&Reservations>, max: u32) {
        let is_full = |open: &&Reservations| open.len() >= max as usize;
        self.full_until = open.filter(is_full).and_then(Reservations::first_end);
        self.deny_if_full();
    }

    fn deny_if_full(&mut self) {
        if self.full_until.is_some() && self.fit == Fit::Fits {
            self.fit = Fit::Limited;
        }
    }

    /// Adds the wait for the first reservation to end, if the key has too many.
    #[inline]
    pub(crate) fn wait_for_reservation(&self, decision: &mut Decision, now: i64) {
        if let Some(end) = self.full_until
            && decision.reason == Reason::Limited
        {
            decision.retry_after_us = Some(decision.retry_after_us.unwrap_or(0).max(wait(end, now)));
        }
    }

    /// Checks another cost against the same units in use.
    #[cold]
    pub(crate) fn recheck(&mut self, specs: &[LimitSpec], cost: u64) {
        self.fit = Fit::new(specs, self.used, cost);
        self.deny_if_full();
    }
}

/// The time until `cost` fits under every limit; `None` if it never fits.
pub(crate) fn fits_after(view: StateView<'_>, moment: Moment, cost: u64) -> Option<u64> {
    let fits_after = |spec: &LimitSpec| {
        let level = spec.capacity.checked_sub(cost)?;
        let fits = view.used(spec, moment.at) <= level;
        Some(if fits { 0 } else { wait(view.falls_to(spec, level, moment.at), moment.now) })
    };
    view.specs.iter().map(fits_after).reduce(|one, other| Some(one?.max(other?))).flatten()
}

/// The time from `now` until `then`.
#[inline]
pub(crate) fn wait(then: i64, now: i64) -> u64 {
    // No wait ends before it starts, so the difference is not negative.
    (then - now).cast_unsigned().min(SATURATION)
}
