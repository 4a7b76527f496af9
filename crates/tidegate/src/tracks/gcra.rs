//! `gcra`: a debt that every charge raises and time drains.
//!
//! `used(t) = ceil(debt * max / window)`; the debt grows by `cost * window / max` a charge and falls by 1 µs a µs. Promise:
//! `max` per window sustained, at most `burst` at once, so at most `max + burst` in a window. State: the debt as of the
//! newest charge, held exactly as `debt * max`: a whole number of unit-microseconds, of which a charge adds
//! `cost * window` and a microsecond drains `max`. A debt ends at 9 * 10^15 microseconds, so a burst that would take longer
//! than that to drain is as good as the largest one that doesn't.

#![expect(clippy::cast_possible_truncation, reason = "halves of 128 bits; waits below 9 * 10^15")]

use super::{Gauge, Recorded};
use crate::{limit::Limit, shape::Grid, timestamp::SATURATION};

/// The debt as of the newest charge, in unit-microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Debt {
    high: u64,
    low: u64,
}

/// The debt as it stands at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
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
    pub(crate) fn at(self, grid: Grid, newest: i64, t: i64) -> At {
        At { debt: self.left(grid, newest, t), t, grid }
    }

    /// The debt that is left at `t`.
    #[inline]
    fn left(self, grid: Grid, newest: i64, t: i64) -> u128 {
        self.unit_micros().saturating_sub(drained(grid, t - newest))
    }

    pub(crate) fn refund(&mut self, grid: Grid, newest: i64, units: u64, charged_at: i64, t: i64) -> bool {
        let worth = worth(grid, units).saturating_sub(drained(grid, t - charged_at));
        let returned = worth.min(self.left(grid, newest, t));
        *self = Self::new(self.unit_micros() - returned);
        returned > 0
    }

    /// The same debt in time, for a limit that drains it at another rate; rounded up.
    pub(crate) fn redrained(self, from: Grid, to: Grid) -> Self {
        let (old, new) = (u128::from(from.drain), u128::from(to.drain));
        let (micros, rest) = (self.unit_micros() / old, self.unit_micros() % old);
        Self::new(micros * new + (rest * new).div_ceil(old))
    }
}

impl At {
    /// The most debt that is held: [`SATURATION`] microseconds.
    #[inline]
    fn most(&self) -> u128 {
        u128::from(SATURATION) * u128::from(self.grid.drain)
    }

    pub(crate) fn debt(self) -> Debt {
        Debt::new(self.debt)
    }
}

impl Gauge for At {
    #[inline]
    fn used(&self) -> u64 {
        let units = div_ceil(self.debt, self.grid.window.cast_unsigned());
        u64::try_from(units).unwrap_or(SATURATION).min(SATURATION)
    }

    #[inline]
    fn falls_to(&self, level: u64) -> i64 {
        let kept = worth(self.grid, level);
        // The debt is never above SATURATION microseconds.
        self.t + div_ceil(self.debt.saturating_sub(kept), self.grid.drain) as i64
    }

    #[inline]
    fn charge(&mut self, units: u64, _room: bool) -> Recorded {
        self.debt = (self.debt + worth(self.grid, units)).min(self.most());
        Recorded::Exactly
    }

    #[inline]
    fn used_after(&self, before: u64, units: u64) -> u64 {
        if self.debt == self.most() { self.used() } else { (before + units).min(SATURATION) }
    }
}

/// The most units that a debt can hold: those whose debt is no longer than [`SATURATION`] microseconds.
pub(crate) fn most_units(limit: Limit) -> u64 {
    let units = u128::from(SATURATION) * u128::from(limit.max()) / u128::from(limit.window_us());
    u64::try_from(units).unwrap_or(SATURATION).min(SATURATION)
}

/// What `units` add to the debt.
#[inline]
fn worth(grid: Grid, units: u64) -> u128 {
    u128::from(units) * micros(grid)
}

/// What `elapsed` microseconds drain from it.
#[inline]
fn drained(grid: Grid, elapsed: i64) -> u128 {
    u128::from(elapsed.cast_unsigned()) * u128::from(grid.drain)
}

#[inline]
fn micros(grid: Grid) -> u128 {
    u128::from(grid.window.cast_unsigned())
}

/// Division of 128 bits is a library call; most debts need only 64.
#[inline]
fn div_ceil(dividend: u128, divisor: u64) -> u128 {
    match u64::try_from(dividend) {
        Ok(small) => small.div_ceil(divisor).into(),
        Err(_) => dividend.div_ceil(divisor.into()),
    }
}
