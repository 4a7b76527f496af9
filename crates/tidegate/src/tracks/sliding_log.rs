//! `sliding_log`: the costs charged in `(t - window, t]`, each remembered at its own microsecond.
//!
//! Promise: never more than `max` in any window, anywhere on the time line. State: a delta-coded [`Log`], a few bytes a
//! request. The limits of a policy share one log, kept for the longest window; each reads its own part of it.

use std::ops::Deref;

use super::{Gauge, Recorded, log::Log};

/// A log as it stands at a moment, for one limit.
#[derive(Debug)]
pub(crate) struct At<L> {
    pub(crate) log: L,
    pub(crate) window: i64,
    /// The longest window of the limits that share the log.
    pub(crate) longest: i64,
    pub(crate) newest: i64,
    pub(crate) t: i64,
}

impl<L: Deref<Target = Log>> At<L> {
    #[inline]
    pub(crate) fn used(&self) -> u64 {
        self.log.units_after(self.newest, self.t - self.window)
    }

    #[inline]
    pub(crate) fn falls_to(&self, level: u64) -> i64 {
        let entry = self.log.falls_to(self.newest, self.t - self.window, level);
        entry.map_or(self.t, |entry| entry + self.window)
    }
}

impl Gauge for At<&mut Log> {
    #[inline]
    fn used(&self) -> u64 {
        self.used()
    }

    #[inline]
    fn falls_to(&self, level: u64) -> i64 {
        self.falls_to(level)
    }

    #[inline]
    fn charge(&mut self, units: u64, room: bool) -> Recorded {
        self.log.forget_until(self.newest, self.t - self.longest);
        let recorded = self.log.push(self.newest, self.t, units, room);
        self.newest = self.t;
        recorded
    }
}

pub(crate) fn refund(log: &mut Log, longest: i64, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
    charged_at > t - longest && log.take_back(newest, charged_at, units) > 0
}
