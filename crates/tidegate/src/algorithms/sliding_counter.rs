//! `sliding_counter`: the count of the current aligned window and a share of the previous one.
//!
//! Formula, with `i = floor(t / window)` and `e = t - i * window`:
//! `used(t) = count[i] + floor(count[i - 1] * (window - e) / window)`.
//!
//! Promise: an estimate that is close on ordinary traffic, and at most `2 * max` units in any window against an
//! adversary.
//!
//! State: two counts, of the window that contains the newest charge and of the window before it.

#![expect(clippy::cast_possible_truncation, reason = "a quotient is never larger than its factors")]

use super::{ChargeAt, Recording, UsageAt};
use crate::{layout::Grid, timestamp::SATURATION};

/// The counts of the aligned window that contains the newest charge and of the window before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowCounts {
    pub(crate) current: u64,
    pub(crate) previous: u64,
}

/// The counts at time `t`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountsAt {
    counts: WindowCounts,
    t: i64,
    grid: Grid,
    /// The end of the window that contains `t`.
    end: i64,
}

impl WindowCounts {
    #[inline]
    pub(crate) fn at(self, grid: Grid, newest: i64, t: i64) -> CountsAt {
        let window = grid.window;
        let end = grid.start(newest) + window;
        let (counts, end) = if t < end {
            (self, end)
        } else if t < end + window {
            (Self { current: 0, previous: self.current }, end + window)
        } else {
            (Self { current: 0, previous: 0 }, grid.start(t) + window)
        };
        CountsAt { counts, t, grid, end }
    }

    /// The first time at which none of the present window's units are in use, after `given_back` of them have been given back.
    /// The window ends at `end`. `None` if that gives all of them back.
    #[inline]
    pub(crate) fn current_resets_at(self, given_back: u64, grid: Grid, end: i64) -> Option<i64> {
        let left = self.current.checked_sub(given_back).filter(|left| *left > 0)?;
        Some(end + grid.window - longest_left(left, grid.window, 0))
    }

    pub(crate) fn refund(&mut self, grid: Grid, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
        let (slot, newest_start) = (grid.start(charged_at), grid.start(newest));
        let count = match slot {
            _ if slot == newest_start => &mut self.current,
            _ if slot == newest_start - grid.window => &mut self.previous,
            _ => return false,
        };
        let returned = units.min(*count);
        *count -= returned;
        returned > 0 && slot >= grid.start(t) - grid.window
    }

    pub(crate) fn rebase(&mut self, grid: Grid, newest: i64) {
        self.current = self.at(grid, newest, newest).used().min(SATURATION);
        self.previous = 0;
    }
}

impl CountsAt {
    pub(crate) fn counts(self) -> WindowCounts {
        self.counts
    }
}

impl UsageAt for CountsAt {
    #[inline]
    fn used(&self) -> u64 {
        self.counts.current + share(self.counts.previous, self.end - self.t, self.grid)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "called twice, and slow if the arguments go through memory")]
    fn falls_to(&self, level: u64) -> i64 {
        let WindowCounts { current, previous } = self.counts;
        if current <= level {
            let left = longest_left(previous, self.grid.window, level - current);
            if left > 0 {
                return self.t.max(self.end - left);
            }
        }
        // In the next window, the current count is the previous count. In the window after that, it is no longer counted.
        self.end + self.grid.window - longest_left(current, self.grid.window, level)
    }
}

impl ChargeAt for CountsAt {
    #[inline]
    fn charge(&mut self, units: u64, _room: bool) -> Recording {
        self.counts.current = (self.counts.current + units).min(SATURATION);
        Recording::Exact
    }
}

/// `floor(count * left / window)`, exactly.
#[inline]
fn share(count: u64, left: i64, grid: Grid) -> u64 {
    if count == 0 {
        return 0;
    }
    let (left, window) = (left.cast_unsigned(), grid.window.cast_unsigned());
    match count.checked_mul(left) {
        Some(product) => grid.windows_in(product),
        // Never more than `count`, so it fits.
        None => (u128::from(count) * u128::from(left) / u128::from(window)) as u64,
    }
}

/// The largest `left <= window` at which at most `level` units of `count` are counted:
/// `floor(count * left / window) <= level` if `count * left < (level + 1) * window`.
#[inline]
fn longest_left(count: u64, window: i64, level: u64) -> i64 {
    if count <= level {
        return window;
    }
    let bound = match (level + 1).checked_mul(window.cast_unsigned()) {
        Some(product) => (product - 1) / count,
        // Less than `window`, since `level + 1 <= count`.
        None => ((u128::from(level + 1) * u128::from(window.cast_unsigned()) - 1) / u128::from(count)) as u64,
    };
    bound.cast_signed().min(window)
}
