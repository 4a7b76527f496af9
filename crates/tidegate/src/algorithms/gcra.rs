//! `gcra`: a debt that grows with every charge and drains over time.
//!
//! Formula: `used(t) = ceil(debt * max / window)`. A charge adds `cost * window / max` microseconds to the debt, and the
//! debt falls by 1 µs per µs.
//!
//! Promise: `max` units per window sustained, and at most `burst` units at once. So a window admits at most
//! `max + burst` units.
//!
//! State: the debt at the time of the newest charge. It is stored exactly as `debt * max`, a whole number of
//! unit-microseconds: a charge adds `cost * window`, and a microsecond drains `max`. The debt saturates at 9 * 10^15
//! microseconds, so a burst that takes longer to drain is reduced to the largest burst that does not.

#![expect(clippy::cast_possible_truncation, reason = "halves of 128 bits; waits below 9 * 10^15")]

use super::{ChargeAt, Recording, UsageAt};
use crate::{layout::Grid, limit::Limit, timestamp::SATURATION};

/// The debt at the time of the newest charge, in unit-microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Debt {
    high: u64,
    low: u64,
}

/// The debt at time `t`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DebtAt {
    debt: u128,
    t: i64,
    grid: Grid,
}

impl Debt {
    pub(crate) fn new(unit_micros: u128) -> Self {
        let (high, low) = ((unit_micros >> 64) as u64, unit_micros as u64);
        Self { high, low }
    }

    pub(crate) fn unit_micros(self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }

    #[inline]
    pub(crate) fn at(self, grid: Grid, newest: i64, t: i64) -> DebtAt {
        DebtAt { debt: self.left(grid, newest, t), t, grid }
    }

    /// The remaining debt at `t`.
    #[inline]
    fn left(self, grid: Grid, newest: i64, t: i64) -> u128 {
        self.unit_micros().saturating_sub(drained(grid, t - newest))
    }

    pub(crate) fn refund(&mut self, grid: Grid, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
        let added = debt_left(grid.window, grid.drain, units, t - charged_at);
        let returned = added.min(self.left(grid, newest, t));
        *self = Self::new(self.unit_micros() - returned);
        returned > 0
    }

    /// The same debt in time, for a limit that drains it at another rate. It is rounded up.
    pub(crate) fn with_drain_rate(self, from: Grid, to: Grid) -> Self {
        let (old, new) = (u128::from(from.drain), u128::from(to.drain));
        let (micros, rest) = (self.unit_micros() / old, self.unit_micros() % old);
        Self::new(micros * new + (rest * new).div_ceil(old))
    }
}

impl DebtAt {
    /// The maximum debt: [`SATURATION`] microseconds.
    #[inline]
    fn max_debt(&self) -> u128 {
        u128::from(SATURATION) * u128::from(self.grid.drain)
    }

    pub(crate) fn debt(self) -> Debt {
        Debt::new(self.debt)
    }
}

impl UsageAt for DebtAt {
    #[inline]
    fn used(&self) -> u64 {
        let units = div_ceil(self.debt, self.grid.window.cast_unsigned());
        u64::try_from(units).unwrap_or(SATURATION).min(SATURATION)
    }

    #[inline]
    fn falls_to(&self, level: u64) -> i64 {
        let kept = debt_of(self.grid, level);
        // The debt is never above SATURATION microseconds.
        self.t + div_ceil(self.debt.saturating_sub(kept), self.grid.drain) as i64
    }
}

impl ChargeAt for DebtAt {
    #[inline]
    fn charge(&mut self, units: u64, _room: bool) -> Recording {
        self.debt = (self.debt + debt_of(self.grid, units)).min(self.max_debt());
        Recording::Exact
    }

    #[inline]
    fn used_after(&self, before: u64, units: u64) -> u64 {
        if self.debt == self.max_debt() { self.used() } else { (before + units).min(SATURATION) }
    }
}

/// The maximum units in use under a limit: a larger debt would exceed [`SATURATION`] microseconds.
pub(crate) fn max_units(limit: Limit) -> u64 {
    let units = u128::from(SATURATION) * u128::from(limit.max()) / u128::from(limit.window_us());
    u64::try_from(units).unwrap_or(SATURATION).min(SATURATION)
}

/// The time in which the debt of `units` drains, in microseconds; `None` for algorithms without a debt.
pub(crate) fn time_to_drain(grid: Grid, units: u64) -> Option<i64> {
    let time = debt_of(grid, units).checked_add(grid.drain.checked_sub(1)?.into())? / u128::from(grid.drain);
    Some(time.min(SATURATION.into()) as i64)
}

/// The part of the debt of `units` that is left after `elapsed` microseconds.
#[inline]
pub(crate) fn debt_left(window: i64, drain: u64, units: u64, elapsed: i64) -> u128 {
    let drained = u128::from(elapsed.cast_unsigned()) * u128::from(drain);
    (u128::from(units) * u128::from(window.cast_unsigned())).saturating_sub(drained)
}

/// The debt that `units` add.
#[inline]
fn debt_of(grid: Grid, units: u64) -> u128 {
    u128::from(units) * u128::from(grid.window.cast_unsigned())
}

/// The debt that drains in `elapsed` microseconds.
#[inline]
fn drained(grid: Grid, elapsed: i64) -> u128 {
    u128::from(elapsed.cast_unsigned()) * u128::from(grid.drain)
}

/// Most debts fit into 64 bits, and a 128-bit division is a slow library call.
#[inline]
fn div_ceil(dividend: u128, divisor: u64) -> u128 {
    match u64::try_from(dividend) {
        Ok(small) => small.div_ceil(divisor).into(),
        Err(_) => dividend.div_ceil(divisor.into()),
    }
}
