//! `fixed_window`: the costs charged in the aligned window of `t`.
//!
//! `used(t) = count[floor(t / window)]`. Promise: at most `2 * max` across the boundary of two windows; the baseline
//! that the sliding ones are compared against. State: the count of the window that holds the newest charge.

use super::{Gauge, Recorded};
use crate::{shape::Grid, timestamp::SATURATION};

/// The count of the window that holds the newest charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u64);

/// The count as it stands at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    count: u64,
    t: i64,
    /// The end of the window that holds that moment.
    end: i64,
}

impl Count {
    #[inline]
    pub(crate) fn at(self, grid: Grid, newest: i64, t: i64) -> At {
        let end = grid.start(newest) + grid.window;
        if t < end { At { count: self.0, t, end } } else { At { count: 0, t, end: grid.start(t) + grid.window } }
    }

    pub(crate) fn refund(&mut self, grid: Grid, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
        let counted = charged_at >= grid.start(t);
        let returned = if counted { units.min(self.at(grid, newest, t).count) } else { 0 };
        self.0 -= returned;
        returned > 0
    }
}

impl At {
    pub(crate) fn count(self) -> Count {
        Count(self.count)
    }
}

impl Gauge for At {
    #[inline]
    fn used(&self) -> u64 {
        self.count
    }

    #[inline]
    fn falls_to(&self, level: u64) -> i64 {
        if self.count <= level { self.t } else { self.end }
    }

    #[inline]
    fn charge(&mut self, units: u64, _room: bool) -> Recorded {
        self.count = (self.count + units).min(SATURATION);
        Recorded::Exactly
    }
}
