//! `sliding_counter`: the count of this aligned window, and of the one before as much as still overlaps.
//!
//! With `i = floor(t / window)` and `e = t - i * window`:
//! `used(t) = count[i] + floor(count[i - 1] * (window - e) / window)`. Promise: an estimate, close on ordinary traffic; at
//! most `2 * max` in any window against an adversary. State: two counts, of the window that holds the newest charge and of
//! the one before.

#![expect(clippy::cast_possible_truncation, reason = "quotients that are no larger than what was multiplied")]

use super::fixed_window::start;
use crate::timestamp::SATURATION;

/// The counts of the aligned window that holds the newest charge and of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) current: u64,
    pub(crate) previous: u64,
}

/// The counts as they stand at some later time.
struct Seen {
    counts: Counts,
    /// The beginning of the window they are current in.
    start: i64,
}

impl Counts {
    #[inline]
    fn at(self, window: i64, newest: i64, t: i64) -> Seen {
        let first = start(window, newest);
        let passed = t - first;
        if passed < window {
            let (counts, start) = (self, first);
            Seen { counts, start }
        } else if passed < 2 * window {
            let (current, previous) = (0, self.current);
            let (counts, start) = (Self { current, previous }, first + window);
            Seen { counts, start }
        } else {
            let (current, previous) = (0, 0);
            let (counts, start) = (Self { current, previous }, start(window, t));
            Seen { counts, start }
        }
    }

    #[inline]
    pub(crate) fn used(self, window: i64, newest: i64, t: i64) -> u64 {
        let Seen { counts, start } = self.at(window, newest, t);
        counts.current + share(counts.previous, start + window - t, window)
    }

    #[inline]
    pub(crate) fn falls_to(self, window: i64, newest: i64, level: u64, t: i64) -> i64 {
        let Seen { counts, start } = self.at(window, newest, t);
        let Self { current, previous } = counts;
        if current <= level {
            let left = longest_left(previous, window, level - current);
            if left > 0 {
                return t.max(start + window - left);
            }
        }
        // In the next window what is current now is the previous one; in the one after, nothing is left of it.
        start + 2 * window - longest_left(current, window, level)
    }

    #[inline]
    pub(crate) fn charge(&mut self, window: i64, newest: i64, units: u64, t: i64) {
        *self = self.at(window, newest, t).counts;
        self.current = (self.current + units).min(SATURATION);
    }

    pub(crate) fn refund(&mut self, window: i64, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
        let now = start(window, t);
        let held = start(window, newest);
        let count = match start(window, charged_at) {
            slot if slot < now - window => return false,
            slot if slot == held => &mut self.current,
            slot if slot == held - window => &mut self.previous,
            _ => return false,
        };
        let returned = units.min(*count);
        *count -= returned;
        returned > 0
    }

    pub(crate) fn rebase(&mut self, window: i64, newest: i64) {
        self.current = self.used(window, newest, newest).min(SATURATION);
        self.previous = 0;
    }
}

/// `floor(count * left / window)`, exactly.
#[inline]
fn share(count: u64, left: i64, window: i64) -> u64 {
    let (left, window) = (left.cast_unsigned(), window.cast_unsigned());
    match count.checked_mul(left) {
        Some(product) => product / window,
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
