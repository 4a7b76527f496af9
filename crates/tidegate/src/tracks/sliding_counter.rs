//! `sliding_counter`: the count of this aligned window, and of the one before as much as still overlaps.
//!
//! With `i = floor(t / window)` and `e = t - i * window`:
//! `used(t) = count[i] + floor(count[i - 1] * (window - e) / window)`. Promise: an estimate, close on ordinary traffic; at
//! most `2 * max` in any window against an adversary. State: two counts, of the window that holds the newest charge and of
//! the one before.

#![expect(clippy::cast_possible_truncation, reason = "quotients that are no larger than what was multiplied")]

use super::{Gauge, Recorded};
use crate::{shape::Grid, timestamp::SATURATION};

/// The counts of the aligned window that holds the newest charge and of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) current: u64,
    pub(crate) previous: u64,
}

/// The counts as they stand at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    counts: Counts,
    t: i64,
    grid: Grid,
    /// The end of the window that holds that moment.
    end: i64,
}

impl Counts {
    #[inline]
    pub(crate) fn at(self, grid: Grid, newest: i64, t: i64) -> At {
        let window = grid.window;
        let end = grid.start(newest) + window;
        let (counts, end) = if t < end {
            (self, end)
        } else if t < end + window {
            (Self { current: 0, previous: self.current }, end + window)
        } else {
            (Self { current: 0, previous: 0 }, grid.start(t) + window)
        };
        At { counts, t, grid, end }
    }

    pub(crate) fn refund(&mut self, grid: Grid, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
        let now = grid.start(t);
        let held = grid.start(newest);
        let count = match grid.start(charged_at) {
            slot if slot < now - grid.window => return false,
            slot if slot == held => &mut self.current,
            slot if slot == held - grid.window => &mut self.previous,
            _ => return false,
        };
        let returned = units.min(*count);
        *count -= returned;
        returned > 0
    }

    pub(crate) fn rebase(&mut self, grid: Grid, newest: i64) {
        self.current = self.at(grid, newest, newest).used().min(SATURATION);
        self.previous = 0;
    }
}

impl At {
    pub(crate) fn counts(self) -> Counts {
        self.counts
    }
}

impl Gauge for At {
    #[inline]
    fn used(&self) -> u64 {
        self.counts.current + share(self.counts.previous, self.end - self.t, self.grid)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "called twice, and too dear to pass through memory")]
    fn falls_to(&self, level: u64) -> i64 {
        let Counts { current, previous } = self.counts;
        if current <= level {
            let left = longest_left(previous, self.grid.window, level - current);
            if left > 0 {
                return self.t.max(self.end - left);
            }
        }
        // In the next window what is current now is the previous one; in the one after, nothing is left of it.
        self.end + self.grid.window - longest_left(current, self.grid.window, level)
    }

    #[inline]
    fn charge(&mut self, units: u64, _room: bool) -> Recorded {
        self.counts.current = (self.counts.current + units).min(SATURATION);
        Recorded::Exactly
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

/// The longest `left <= window` at which no more than `level` of `count` is still counted:
/// `floor(count * left / window) <= level` where `count * left < (level + 1) * window`.
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
