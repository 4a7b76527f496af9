//! `sliding_log`: the costs charged in `(t - window, t]`, each remembered at its own microsecond.
//!
//! Promise: never more than `max` in any window, anywhere on the time line. State: a delta-coded [`Log`], a few bytes a
//! request. The limits of a policy share one log, kept for the longest window; each reads its own part of it.

use super::{Recorded, log::Log};

#[inline]
pub(crate) fn used(log: &Log, window: i64, newest: i64, t: i64) -> u64 {
    log.units_after(newest, t - window)
}

#[inline]
pub(crate) fn falls_to(log: &Log, window: i64, newest: i64, level: u64, t: i64) -> i64 {
    match log.falls_to(newest, t - window, level) {
        Some(entry) => entry + window,
        None => t,
    }
}

#[inline]
pub(crate) fn charge(log: &mut Log, longest: i64, newest: i64, units: u64, t: i64, room: bool) -> Recorded {
    log.forget_until(newest, t - longest);
    log.push(newest, t, units, room)
}

pub(crate) fn refund(log: &mut Log, longest: i64, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
    charged_at > t - longest && log.take_back(newest, charged_at, units) > 0
}
