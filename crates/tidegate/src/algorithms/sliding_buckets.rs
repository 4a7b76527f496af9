//! `sliding_buckets:n`: the counts of the current bucket and of the `n` buckets before it, without interpolation.
//!
//! Formula, with `i = floor(t * n / window)`, exact even if `n` does not divide the window:
//! `used(t) = count[i - n] + … + count[i]`.
//!
//! Promise: never more than `max` units in any window, like `sliding_log`. A unit is counted up to `window / n` (rounded
//! up to a microsecond) longer than `sliding_log` counts it.
//!
//! State: at most `n + 1` counts. They are stored as a [`Log`] whose times are bucket numbers, so empty buckets take no
//! memory.

use std::ops::Deref;

use super::{ChargeAt, Recording, Release, UsageAt, log::Log, sum_by_date};
use crate::layout::Grid;

/// The number of the bucket that contains `t`. Times end at 9 * 10^15 and buckets at 1000, so the product fits.
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

/// The buckets at time `t`.
#[derive(Debug)]
pub(crate) struct BucketsAt<L> {
    log: L,
    grid: Grid,
    t: i64,
    /// The bucket that contains the newest charge.
    newest: i64,
    /// The bucket that contains `t`.
    current: i64,
}

impl<L: Deref<Target = Log>> BucketsAt<L> {
    #[inline]
    pub(crate) fn new(log: L, grid: Grid, newest: i64, t: i64) -> Self {
        Self { log, grid, t, newest: bucket(grid, newest), current: bucket(grid, t) }
    }

    /// The last bucket that is no longer counted.
    #[inline]
    fn horizon(&self) -> i64 {
        self.current - self.grid.buckets - 1
    }
}

impl<L: Deref<Target = Log>> UsageAt for BucketsAt<L> {
    #[inline]
    fn used(&self) -> u64 {
        self.log.units_after(self.newest, self.horizon())
    }

    #[inline]
    fn falls_to(&self, level: u64) -> i64 {
        let entry = self.log.falls_to(self.newest, self.horizon(), level);
        entry.map_or(self.t, |entry| first_instant(self.grid, entry + self.grid.buckets + 1))
    }
}

impl ChargeAt for BucketsAt<&mut Log> {
    #[inline]
    fn charge(&mut self, units: u64, room: bool) -> Recording {
        let horizon = self.horizon();
        self.log.drop_until(self.newest, horizon);
        let recorded = self.log.push(self.newest, self.current, units, room);
        self.newest = self.current;
        recorded
    }
}

pub(crate) fn refund(log: &mut Log, grid: Grid, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
    let (charged, newest) = (bucket(grid, charged_at), bucket(grid, newest));
    let returned = charged >= newest - grid.buckets && log.remove_units(newest, charged, units) > 0;
    returned && charged >= bucket(grid, t) - grid.buckets
}

pub(crate) fn release_all(log: &mut Log, grid: Grid, newest: i64, releases: &[Release]) {
    let newest = bucket(grid, newest);
    let dated = releases.iter().map(|release| (bucket(grid, release.granted_at), release.units));
    log.remove_each(newest, &sum_by_date(dated.filter(|(charged, _)| *charged >= newest - grid.buckets)));
}

/// Moves all units that were in use at the newest charge into the newest bucket.
pub(crate) fn rebase(log: &mut Log, grid: Grid, newest: i64) {
    *log = Log::with_newest(BucketsAt::new(&*log, grid, newest, newest).used());
}
