//! `sliding_buckets:n`: the counts of the bucket that holds `t` and of the `n` before it, nothing interpolated.
//!
//! With `i = floor(t * n / window)`, exactly, also where `n` does not divide: `used(t) = count[i - n] + … + count[i]`.
//! Promise: never more than `max` in any window, as the log; a unit is held up to `window / n`, rounded up to a
//! microsecond, longer than the log would hold it. State: at most `n + 1` counts. They are kept as a [`Log`] whose time
//! is the number of the bucket, so that empty buckets cost nothing: what the log does in microseconds over a window,
//! this does in buckets over `n + 1`.

use super::{Recorded, log::Log};
use crate::shape::Grid;

/// The bucket that holds `t`. Times end at 9 * 10^15 and buckets at 1000, so the product fits.
#[inline]
pub(crate) fn bucket(grid: Grid, t: i64) -> i64 {
    (t * grid.buckets).div_euclid(grid.window)
}

/// The first microsecond of a bucket.
#[inline]
pub(crate) fn first_instant(grid: Grid, bucket: i64) -> i64 {
    let (product, n) = (bucket * grid.window, grid.buckets);
    product.div_euclid(n) + i64::from(product.rem_euclid(n) > 0)
}

/// The last bucket that is no longer counted at `t`.
#[inline]
fn horizon(grid: Grid, t: i64) -> i64 {
    bucket(grid, t) - grid.buckets - 1
}

#[inline]
pub(crate) fn used(log: &Log, grid: Grid, newest: i64, t: i64) -> u64 {
    log.units_after(bucket(grid, newest), horizon(grid, t))
}

#[inline]
pub(crate) fn falls_to(log: &Log, grid: Grid, newest: i64, level: u64, t: i64) -> i64 {
    match log.falls_to(bucket(grid, newest), horizon(grid, t), level) {
        Some(entry) => first_instant(grid, entry + grid.buckets + 1),
        None => t,
    }
}

#[inline]
pub(crate) fn charge(log: &mut Log, grid: Grid, newest: i64, units: u64, t: i64, room: bool) -> Recorded {
    log.forget_until(bucket(grid, newest), horizon(grid, t));
    log.push(bucket(grid, newest), bucket(grid, t), units, room)
}

pub(crate) fn refund(log: &mut Log, grid: Grid, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
    let charged = bucket(grid, charged_at);
    charged > horizon(grid, t) && log.take_back(bucket(grid, newest), charged, units) > 0
}

/// What was in use at the newest charge is all in the newest bucket.
pub(crate) fn rebase(log: &mut Log, grid: Grid, newest: i64) {
    *log = Log::of_newest(used(log, grid, newest, newest));
}
