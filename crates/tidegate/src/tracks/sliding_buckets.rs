//! `sliding_buckets:n`: the counts of the bucket that holds `t` and of the `n` before it, nothing interpolated.
//!
//! With `i = floor(t * n / window)`, exactly, also where `n` does not divide: `used(t) = count[i - n] + … + count[i]`.
//! Promise: never more than `max` in any window, as the log; a unit is held up to `window / n`, rounded up to a
//! microsecond, longer than the log would hold it. State: at most `n + 1` counts. They are kept as a [`Log`] whose time
//! is the number of the bucket, so that empty buckets cost nothing: what the log does in microseconds over a window,
//! this does in buckets over `n + 1`.

use std::ops::Deref;

use super::{Gauge, Recorded, log::Log};
use crate::shape::Grid;

/// The bucket that holds `t`. Times end at 9 * 10^15 and buckets at 1000, so the product fits.
#[inline]
pub(crate) fn bucket(grid: Grid, t: i64) -> i64 {
    let product = t * grid.buckets;
    if product < 0 {
        return product.div_euclid(grid.window);
    }
    grid.windows_in(product.cast_unsigned()).cast_signed()
}

/// The first microsecond of a bucket.
#[inline]
pub(crate) fn first_instant(grid: Grid, bucket: i64) -> i64 {
    let (product, n) = (bucket * grid.window, grid.buckets);
    product.div_euclid(n) + i64::from(product.rem_euclid(n) > 0)
}

/// The buckets as they stand at a moment.
#[derive(Debug)]
pub(crate) struct At<L> {
    log: L,
    grid: Grid,
    t: i64,
    newest: i64,
    /// The bucket that holds that moment.
    current: i64,
}

impl<L: Deref<Target = Log>> At<L> {
    #[inline]
    pub(crate) fn new(log: L, grid: Grid, newest: i64, t: i64) -> Self {
        Self { log, grid, t, newest: bucket(grid, newest), current: bucket(grid, t) }
    }

    /// The last bucket that is no longer counted.
    #[inline]
    fn horizon(&self) -> i64 {
        self.current - self.grid.buckets - 1
    }

    #[inline]
    pub(crate) fn used(&self) -> u64 {
        self.log.units_after(self.newest, self.horizon())
    }

    #[inline]
    pub(crate) fn falls_to(&self, level: u64) -> i64 {
        let entry = self.log.falls_to(self.newest, self.horizon(), level);
        entry.map_or(self.t, |entry| first_instant(self.grid, entry + self.grid.buckets + 1))
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
        let horizon = self.horizon();
        self.log.forget_until(self.newest, horizon);
        let recorded = self.log.push(self.newest, self.current, units, room);
        self.newest = self.current;
        recorded
    }
}

pub(crate) fn refund(log: &mut Log, grid: Grid, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
    let charged = bucket(grid, charged_at);
    charged >= bucket(grid, t) - grid.buckets && log.take_back(bucket(grid, newest), charged, units) > 0
}

/// What was in use at the newest charge is all in the newest bucket.
pub(crate) fn rebase(log: &mut Log, grid: Grid, newest: i64) {
    *log = Log::of_newest(At::new(&*log, grid, newest, newest).used());
}
