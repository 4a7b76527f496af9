//! The algorithms: the units in use, and the time at which they fall to a level.
//!
//! A [`LimitState`] is the state of one limit (of all limits, for `sliding_log`) at the time of the newest charge. Each
//! algorithm is a pure function of that state, the limit and the time. It reads no clock and does not search over time.
//! Without further charges the units in use never grow, so two functions are enough:
//!
//! - `used(t)`: the units in use at `t`, which is never before the newest charge;
//! - `falls_to(level, t)`: the first time, `t` or later, at which at most `level` units are in use. The retry time of a
//!   request is `falls_to(capacity - cost)`, and the reset time is `falls_to(0)`.

pub(crate) mod fixed_window;
pub(crate) mod gcra;
pub(crate) mod log;
pub(crate) mod sliding_buckets;
pub(crate) mod sliding_counter;
pub(crate) mod sliding_log;

use fixed_window::WindowCount;
use gcra::Debt;
use log::Log;
use sliding_counter::WindowCounts;

use crate::{algorithm::AlgorithmKind, layout::LimitSpec, timestamp::SATURATION};

/// The state of one limit under one algorithm. The limits of `sliding_log` share one state.
#[derive(Debug, Clone)]
pub(crate) enum LimitState {
    Fixed(WindowCount),
    Counter(WindowCounts),
    Gcra(Debt),
    Log(Log),
    Buckets(Log),
}

/// Whether a log had memory to record a charge at its own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recording {
    Exact,
    /// The previous charge was joined with this one and dated like it. That is stricter, never looser.
    Joined,
}

/// The state of one limit at a time `t`.
pub(crate) trait UsageAt {
    /// Units in use.
    fn used(&self) -> u64;

    /// The first time, `t` or later, at which at most `level` units are in use.
    fn falls_to(&self, level: u64) -> i64;
}

/// The state of one limit at a time `t`, which can be charged.
pub(crate) trait ChargeAt: UsageAt {
    /// Adds `units`. Without `room`, a log allocates nothing.
    fn charge(&mut self, units: u64, room: bool) -> Recording;

    /// Units in use after `units` were added to `before` units.
    #[inline]
    fn used_after(&self, before: u64, units: u64) -> u64 {
        (before + units).min(SATURATION)
    }
}

/// Units that a hold gives back at its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Release {
    pub(crate) units: u64,
    pub(crate) granted_at: i64,
    pub(crate) until: i64,
}

/// Sorts units by their dates, and adds those of one date.
pub(crate) fn sum_by_date<D: Ord>(dated: impl Iterator<Item = (D, u64)>) -> Vec<(D, u64)> {
    let mut sums: Vec<(D, u64)> = dated.collect();
    sums.sort_unstable();
    sums.dedup_by(|(date, units), (kept, sum)| {
        let is_same = date == kept;
        *sum += if is_same { *units } else { 0 };
        is_same
    });
    sums
}

/// An operation on the state of one limit at a time `t`.
pub(crate) trait Action {
    type Output;

    /// Reads or charges the state. The second value says whether it charged.
    fn apply<S: ChargeAt>(self, state: &mut S) -> (Self::Output, bool);
}

struct Charge {
    units: u64,
    room: bool,
}

impl Action for Charge {
    type Output = Recording;

    #[inline]
    fn apply<S: ChargeAt>(self, state: &mut S) -> (Recording, bool) {
        (state.charge(self.units, self.room), true)
    }
}

impl LimitState {
    pub(crate) fn empty(kind: AlgorithmKind) -> Self {
        match kind {
            AlgorithmKind::Fixed => Self::Fixed(WindowCount(0)),
            AlgorithmKind::Counter => Self::Counter(WindowCounts { current: 0, previous: 0 }),
            AlgorithmKind::Gcra => Self::Gcra(Debt::default()),
            AlgorithmKind::Log => Self::Log(Log::new()),
            AlgorithmKind::Buckets => Self::Buckets(Log::new()),
        }
    }

    /// Units in use at `t`, given that the newest charge was at `newest <= t`.
    pub(crate) fn used(&self, spec: &LimitSpec, newest: i64, t: i64) -> u64 {
        let LimitSpec { grid, longest_window, .. } = *spec;
        match self {
            Self::Fixed(count) => count.at(grid, newest, t).used(),
            Self::Counter(counts) => counts.at(grid, newest, t).used(),
            Self::Gcra(debt) => debt.at(grid, newest, t).used(),
            Self::Log(log) => sliding_log::LogAt { log, window: grid.window, longest_window, newest, t }.used(),
            Self::Buckets(log) => sliding_buckets::BucketsAt::new(log, grid, newest, t).used(),
        }
    }

    /// The first time, `t` or later, at which at most `level` units are in use.
    pub(crate) fn falls_to(&self, spec: &LimitSpec, newest: i64, level: u64, t: i64) -> i64 {
        let LimitSpec { grid, longest_window, .. } = *spec;
        match self {
            Self::Fixed(count) => count.at(grid, newest, t).falls_to(level),
            Self::Counter(counts) => counts.at(grid, newest, t).falls_to(level),
            Self::Gcra(debt) => debt.at(grid, newest, t).falls_to(level),
            Self::Log(log) => {
                sliding_log::LogAt { log, window: grid.window, longest_window, newest, t }.falls_to(level)
            }
            Self::Buckets(log) => sliding_buckets::BucketsAt::new(log, grid, newest, t).falls_to(level),
        }
    }

    /// Charges `units` at `t`, which becomes the time of the newest charge. Without `room`, a log allocates nothing.
    pub(crate) fn charge(&mut self, spec: &LimitSpec, newest: i64, units: u64, t: i64, room: bool) -> Recording {
        self.apply(spec, newest, t, Charge { units, room })
    }

    /// Applies `action` to the state at `t`, and stores the result if it charged.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the output stays in registers")]
    pub(crate) fn apply<A: Action>(&mut self, spec: &LimitSpec, newest: i64, t: i64, action: A) -> A::Output {
        let LimitSpec { grid, longest_window, .. } = *spec;
        let (output, _) = match self {
            Self::Fixed(count) => {
                let mut at = count.at(grid, newest, t);
                let applied = action.apply(&mut at);
                if applied.1 {
                    *count = at.count();
                }
                applied
            }
            Self::Counter(counts) => {
                let mut at = counts.at(grid, newest, t);
                let applied = action.apply(&mut at);
                if applied.1 {
                    *counts = at.counts();
                }
                applied
            }
            Self::Gcra(debt) => {
                let mut at = debt.at(grid, newest, t);
                let applied = action.apply(&mut at);
                if applied.1 {
                    *debt = at.debt();
                }
                applied
            }
            Self::Log(log) => {
                action.apply(&mut sliding_log::LogAt { log, window: grid.window, longest_window, newest, t })
            }
            Self::Buckets(log) => action.apply(&mut sliding_buckets::BucketsAt::new(log, grid, newest, t)),
        };
        output
    }

    /// Gives `units` back to `charged_at <= newest`. Returns whether any of them were in use at `t`.
    ///
    /// A counter gives them back if their slot is counted at `newest`: it is not rolled forward to `t`.
    pub(crate) fn refund(&mut self, spec: &LimitSpec, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
        match self {
            Self::Fixed(count) => count.refund(spec.grid, newest, units, charged_at, t),
            Self::Counter(counts) => counts.refund(spec.grid, newest, units, charged_at, t),
            Self::Gcra(debt) => debt.refund(spec.grid, newest, units, charged_at, t),
            Self::Log(log) => sliding_log::refund(log, spec.longest_window, newest, units, charged_at, t),
            Self::Buckets(log) => sliding_buckets::refund(log, spec.grid, newest, units, charged_at, t),
        }
    }

    /// Gives back the units of ended holds. A log is rewritten once for all of them.
    pub(crate) fn release_all(&mut self, spec: &LimitSpec, newest: i64, releases: &[Release]) {
        match self {
            Self::Log(log) => sliding_log::release_all(log, spec.longest_window, newest, releases),
            Self::Buckets(log) => sliding_buckets::release_all(log, spec.grid, newest, releases),
            Self::Fixed(_) | Self::Counter(_) | Self::Gcra(_) => {
                for Release { units, granted_at, until } in releases {
                    self.refund(spec, newest, *units, *granted_at, *until);
                }
            }
        }
    }

    /// Moves the units that were in use at `newest` to the much earlier `now`, because the clock that wrote `newest` was
    /// wrong.
    pub(crate) fn rebase(&mut self, spec: &LimitSpec, newest: i64, now: i64) {
        match self {
            Self::Fixed(_) | Self::Gcra(_) => {}
            Self::Counter(counts) => counts.rebase(spec.grid, newest),
            Self::Log(log) => log.shift(now - newest),
            Self::Buckets(log) => sliding_buckets::rebase(log, spec.grid, newest),
        }
    }

    /// Whether it may allocate memory.
    #[inline]
    pub(crate) fn is_log(&self) -> bool {
        matches!(self, Self::Log(_) | Self::Buckets(_))
    }

    /// Allocated bytes.
    #[inline]
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Log(log) | Self::Buckets(log) => log.heap_bytes(),
            _ => 0,
        }
    }
}
