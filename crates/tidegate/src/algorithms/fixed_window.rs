//! `fixed_window`: one counter for each aligned window.
//!
//! Formula: `used(t) = count[floor(t / window)]`.
//!
//! Promise: at most `2 * max` units across the boundary of two windows. It is the baseline for comparisons.
//!
//! State: the count of the window that contains the newest charge.

use super::{ChargeAt, Recording, UsageAt};
use crate::{layout::Grid, timestamp::SATURATION};

/// The count of the window that contains the newest charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowCount(pub(crate) u64);

/// The count at time `t`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountAt {
    count: u64,
    t: i64,
    /// The end of the window that contains `t`.
    end: i64,
}

impl WindowCount {
    #[inline]
    pub(crate) fn at(self, grid: Grid, newest: i64, t: i64) -> CountAt {
        let end = grid.start(newest) + grid.window;
        if t < end {
            CountAt { count: self.0, t, end }
        } else {
            CountAt { count: 0, t, end: grid.start(t) + grid.window }
        }
    }

    pub(crate) fn refund(&mut self, grid: Grid, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
        let returned = if charged_at >= grid.start(newest) { units.min(self.0) } else { 0 };
        self.0 -= returned;
        returned > 0 && charged_at >= grid.start(t)
    }
}

impl CountAt {
    pub(crate) fn count(self) -> WindowCount {
        WindowCount(self.count)
    }
}

impl UsageAt for CountAt {
    #[inline]
    fn used(&self) -> u64 {
        self.count
    }

    #[inline]
    fn falls_to(&self, level: u64) -> i64 {
        if self.count <= level { self.t } else { self.end }
    }
}

impl ChargeAt for CountAt {
    #[inline]
    fn charge(&mut self, units: u64, _room: bool) -> Recording {
        self.count = (self.count + units).min(SATURATION);
        Recording::Exact
    }
}
