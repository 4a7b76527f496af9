//! `fixed_window`: the costs charged in the aligned window of `t`.
//!
//! `used(t) = count[floor(t / window)]`. Promise: at most `2 * max` across the boundary of two windows; the baseline
//! that the sliding ones are compared against. State: the count of the window that holds the newest charge.

use crate::timestamp::SATURATION;

/// The count of the window that holds the newest charge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(pub(crate) u64);

impl Count {
    #[inline]
    pub(crate) fn used(self, window: i64, newest: i64, t: i64) -> u64 {
        if t - start(window, newest) < window { self.0 } else { 0 }
    }

    #[inline]
    pub(crate) fn falls_to(self, window: i64, newest: i64, level: u64, t: i64) -> i64 {
        if self.used(window, newest, t) <= level { t } else { start(window, newest) + window }
    }

    #[inline]
    pub(crate) fn charge(&mut self, window: i64, newest: i64, units: u64, t: i64) {
        self.0 = (self.used(window, newest, t) + units).min(SATURATION);
    }

    pub(crate) fn refund(&mut self, window: i64, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
        let returned = if charged_at >= start(window, t) { units.min(self.used(window, newest, t)) } else { 0 };
        self.0 -= returned;
        returned > 0
    }
}

/// The beginning of the aligned window that holds `t`.
#[inline]
pub(crate) fn start(window: i64, t: i64) -> i64 {
    t - t.rem_euclid(window)
}
