//! The algorithms: what is in use, and when it falls to a level.
//!
//! A [`Track`] is the state of one limit (of all limits, for a log) as of the time of the newest charge. Each
//! algorithm is a pure function of it, the rule and the time: no clock, no search over time. Two questions answer
//! everything, since with no further charges the units in use never grow:
//!
//! - `used(t)`: the units in use at `t`, which is never before the newest charge;
//! - `falls_to(level, t)`: the first moment, `t` or later, at which no more than `level` units are in use. The retry
//!   time of a request is that of `capacity - cost`, the reset time that of 0.

pub(crate) mod fixed_window;
pub(crate) mod gcra;
pub(crate) mod log;
pub(crate) mod sliding_buckets;
pub(crate) mod sliding_counter;
pub(crate) mod sliding_log;

use fixed_window::Count;
use gcra::Debt;
use log::Log;
use sliding_counter::Counts;

use crate::{
    shape::{Kind, Rule},
    timestamp::SATURATION,
};

/// What is in use under one limit, or under all that share a log.
#[derive(Debug, Clone)]
pub(crate) enum Track {
    Fixed(Count),
    Counter(Counts),
    Gcra(Debt),
    Log(Log),
    Buckets(Log),
}

/// Whether a log had memory to record a charge at its own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    Exactly,
    /// Joined with the charge before it and dated like this one: stricter, never looser.
    Joined,
}

/// The state of one limit as it stands at a moment.
pub(crate) trait Gauge {
    /// Units in use.
    fn used(&self) -> u64;

    /// The first moment from now on at which no more than `level` units are in use.
    fn falls_to(&self, level: u64) -> i64;

    /// Adds `units`. Without `room`, a log takes no memory.
    fn charge(&mut self, units: u64, room: bool) -> Recorded;

    /// Units in use after `units` were added to `before`.
    #[inline]
    fn used_after(&self, before: u64, units: u64) -> u64 {
        (before + units).min(SATURATION)
    }
}

/// What is done with a state as it stands at a moment.
pub(crate) trait Visitor {
    type Output;

    /// Looks at it or charges it, and says whether it did.
    fn visit<G: Gauge>(self, gauge: &mut G) -> (Self::Output, bool);
}

struct Charge {
    units: u64,
    room: bool,
}

impl Visitor for Charge {
    type Output = Recorded;

    #[inline]
    fn visit<G: Gauge>(self, gauge: &mut G) -> (Recorded, bool) {
        (gauge.charge(self.units, self.room), true)
    }
}

impl Track {
    pub(crate) fn empty(kind: Kind) -> Self {
        match kind {
            Kind::Fixed => Self::Fixed(Count(0)),
            Kind::Counter => Self::Counter(Counts { current: 0, previous: 0 }),
            Kind::Gcra => Self::Gcra(Debt::default()),
            Kind::Log => Self::Log(Log::new()),
            Kind::Buckets => Self::Buckets(Log::new()),
        }
    }

    /// Units in use at `t`, given that the newest charge was at `newest <= t`.
    pub(crate) fn used(&self, rule: &Rule, newest: i64, t: i64) -> u64 {
        let Rule { grid, longest, .. } = *rule;
        match self {
            Self::Fixed(count) => count.at(grid, newest, t).used(),
            Self::Counter(counts) => counts.at(grid, newest, t).used(),
            Self::Gcra(debt) => debt.at(grid, newest, t).used(),
            Self::Log(log) => sliding_log::At { log, window: grid.window, longest, newest, t }.used(),
            Self::Buckets(log) => sliding_buckets::At::new(log, grid, newest, t).used(),
        }
    }

    /// The first moment from `t` on at which no more than `level` units are in use.
    pub(crate) fn falls_to(&self, rule: &Rule, newest: i64, level: u64, t: i64) -> i64 {
        let Rule { grid, longest, .. } = *rule;
        match self {
            Self::Fixed(count) => count.at(grid, newest, t).falls_to(level),
            Self::Counter(counts) => counts.at(grid, newest, t).falls_to(level),
            Self::Gcra(debt) => debt.at(grid, newest, t).falls_to(level),
            Self::Log(log) => sliding_log::At { log, window: grid.window, longest, newest, t }.falls_to(level),
            Self::Buckets(log) => sliding_buckets::At::new(log, grid, newest, t).falls_to(level),
        }
    }

    /// Charges `units` at `t`, which becomes the time of the newest charge. Without `room`, a log takes no memory.
    pub(crate) fn charge(&mut self, rule: &Rule, newest: i64, units: u64, t: i64, room: bool) -> Recorded {
        self.visit(rule, newest, t, Charge { units, room })
    }

    /// Shows the state as it stands at `t` to a visitor, and keeps it as such if it was charged.
    #[inline]
    pub(crate) fn visit<V: Visitor>(&mut self, rule: &Rule, newest: i64, t: i64, visitor: V) -> V::Output {
        let Rule { grid, longest, .. } = *rule;
        let (output, _) = match self {
            Self::Fixed(count) => {
                let mut at = count.at(grid, newest, t);
                let visited = visitor.visit(&mut at);
                if visited.1 {
                    *count = at.count();
                }
                visited
            }
            Self::Counter(counts) => {
                let mut at = counts.at(grid, newest, t);
                let visited = visitor.visit(&mut at);
                if visited.1 {
                    *counts = at.counts();
                }
                visited
            }
            Self::Gcra(debt) => {
                let mut at = debt.at(grid, newest, t);
                let visited = visitor.visit(&mut at);
                if visited.1 {
                    *debt = at.debt();
                }
                visited
            }
            Self::Log(log) => visitor.visit(&mut sliding_log::At { log, window: grid.window, longest, newest, t }),
            Self::Buckets(log) => visitor.visit(&mut sliding_buckets::At::new(log, grid, newest, t)),
        };
        output
    }

    /// Gives `units` back to the moment `charged_at <= newest`, as far as they are still in use at `t`; whether any were.
    pub(crate) fn refund(&mut self, rule: &Rule, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
        match self {
            Self::Fixed(count) => count.refund(rule.grid, newest, units, charged_at, t),
            Self::Counter(counts) => counts.refund(rule.grid, newest, units, charged_at, t),
            Self::Gcra(debt) => debt.refund(rule.grid, newest, units, charged_at, t),
            Self::Log(log) => sliding_log::refund(log, rule.longest, newest, units, charged_at, t),
            Self::Buckets(log) => sliding_buckets::refund(log, rule.grid, newest, units, charged_at, t),
        }
    }

    /// Puts what was in use at `newest` to `now`, long before it: the clock that wrote it is not to be believed.
    pub(crate) fn rebase(&mut self, rule: &Rule, newest: i64, now: i64) {
        match self {
            Self::Fixed(_) | Self::Gcra(_) => {}
            Self::Counter(counts) => counts.rebase(rule.grid, newest),
            Self::Log(log) => log.shift(now - newest),
            Self::Buckets(log) => sliding_buckets::rebase(log, rule.grid, newest),
        }
    }

    /// Bytes held on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Log(log) | Self::Buckets(log) => log.heap_bytes(),
            _ => 0,
        }
    }
}
