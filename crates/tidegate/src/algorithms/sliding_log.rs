//! `sliding_log`: every charge of the last window, at its own microsecond.
//!
//! Formula: `used(t)` = the costs charged in `(t - window, t]`.
//!
//! Promise: never more than `max` units in any window, anywhere on the timeline.
//!
//! State: a delta-coded [`Log`] with a few bytes for each request. The limits of a policy share one log, which covers the
//! longest window. Each limit reads the part of its own window.

use std::ops::Deref;

use super::{ChargeAt, Recording, Release, UsageAt, log::Log, sum_by_date};

/// The log at time `t`, for one limit.
#[derive(Debug)]
pub(crate) struct LogAt<L> {
    pub(crate) log: L,
    pub(crate) window: i64,
    /// The longest window of the limits that share the log.
    pub(crate) longest_window: i64,
    pub(crate) newest: i64,
    pub(crate) t: i64,
}

impl<L: Deref<Target = Log>> UsageAt for LogAt<L> {
    #[inline]
    fn used(&self) -> u64 {
        self.log.units_after(self.newest, self.t - self.window)
    }

    #[inline]
    fn falls_to(&self, level: u64) -> i64 {
        let entry = self.log.falls_to(self.newest, self.t - self.window, level);
        entry.map_or(self.t, |entry| entry + self.window)
    }
}

impl ChargeAt for LogAt<&mut Log> {
    #[inline]
    fn charge(&mut self, units: u64, room: bool) -> Recording {
        self.log.drop_until(self.newest, self.t - self.longest_window);
        let recorded = self.log.push(self.newest, self.t, units, room);
        self.newest = self.t;
        recorded
    }
}

pub(crate) fn refund(log: &mut Log, longest_window: i64, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
    charged_at > t - longest_window && log.remove_units(newest, charged_at, units) > 0
}

/// The time of the entry from which a hold gives back units. `None` if the log does not cover it any more when the hold ends.
pub(crate) fn released_entry(longest_window: i64, release: Release) -> Option<i64> {
    (release.granted_at > release.until - longest_window).then_some(release.granted_at)
}

pub(crate) fn release_all(log: &mut Log, longest_window: i64, newest: i64, releases: &[Release]) {
    let dated = |release: &Release| Some((released_entry(longest_window, *release)?, release.units));
    log.remove_each(newest, &sum_by_date(releases.iter().filter_map(dated)));
}
