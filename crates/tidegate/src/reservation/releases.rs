//! [`Releases`]: what all open holds together give back to one limit by their ends.
//!
//! It is updated with every hold, so that the answer to a request on a key with many holds reads none of them.

use super::open::Reservation;
use crate::{
    algorithms::{
        LimitState, UsageAt,
        fixed_window::WindowCount,
        gcra::{self, Debt},
        sliding_buckets::bucket,
        sliding_counter::WindowCounts,
    },
    layout::Grid,
};

/// What the open holds that end as released give back to one limit, if nothing else changes the limit's state.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Releases {
    #[default]
    Unknown,
    /// Units that were granted in the window that starts at `start`, and in the window before it.
    Windows { window: i64, start: i64, current: u64, previous: u64 },
    /// The part of a debt that has not drained when the holds end.
    Debt { window: i64, drain: u64, debt: u128 },
    /// Units that were granted in the bucket of the newest hold.
    Bucket { grid: Grid, number: i64, units: u64 },
}

impl Releases {
    /// The releases of `open` under a limit with this state and grid. `Unknown` for a log.
    pub(super) fn of<'a>(
        state: &LimitState,
        grid: Grid,
        newest: i64,
        open: impl IntoIterator<Item = &'a Reservation>,
    ) -> Self {
        let Grid { window, drain, .. } = grid;
        let mut releases = match state {
            LimitState::Fixed(_) | LimitState::Counter(_) => {
                Self::Windows { window, start: grid.start(newest), current: 0, previous: 0 }
            }
            LimitState::Gcra(_) => Self::Debt { window, drain, debt: 0 },
            LimitState::Buckets(_) => Self::Bucket { grid, number: i64::MIN, units: 0 },
            LimitState::Log(_) => Self::Unknown,
        };
        open.into_iter().for_each(|open| releases.add(open));
        releases
    }

    /// Whether they are known for a limit with this state and grid.
    #[inline]
    pub(super) fn are_of(&self, state: &LimitState, grid: Grid, newest: i64) -> bool {
        match (self, state) {
            (Self::Windows { window, start, .. }, LimitState::Fixed(_) | LimitState::Counter(_)) => {
                *window == grid.window && (*start..start + window).contains(&newest)
            }
            (Self::Debt { window, drain, .. }, LimitState::Gcra(_)) => (*window, *drain) == (grid.window, grid.drain),
            (Self::Bucket { grid: own, .. }, LimitState::Buckets(_)) => *own == grid,
            _ => false,
        }
    }

    /// Makes the releases of no holds those of any other key. Sums of 0 are, but the newest bucket is not.
    pub(super) fn forget_key(&mut self) {
        if let Self::Bucket { .. } = self {
            *self = Self::Unknown;
        }
    }

    /// Adds a hold.
    #[inline]
    pub(super) fn add(&mut self, hold: &Reservation) {
        self.change(hold, |sum, units| *sum += units, |sum, debt| *sum += debt);
    }

    /// Removes a hold that has been added.
    #[inline]
    pub(super) fn remove(&mut self, hold: &Reservation) {
        self.change(hold, |sum, units| *sum -= units, |sum, debt| *sum -= debt);
    }

    #[inline]
    fn change(
        &mut self,
        hold: &Reservation,
        change_units: impl FnOnce(&mut u64, u64),
        change_debt: impl FnOnce(&mut u128, u128),
    ) {
        match self {
            Self::Windows { window, start, current, previous } if hold.is_released_at_end() => {
                match hold.granted_at - *start {
                    since if since >= *window => *self = Self::Unknown,
                    since if since >= 0 => change_units(current, hold.units),
                    since if since >= -*window => change_units(previous, hold.units),
                    _ => {}
                }
            }
            Self::Debt { window, drain, debt } if hold.is_released_at_end() => {
                let left = gcra::debt_left(*window, *drain, hold.units, hold.until - hold.granted_at);
                change_debt(debt, left);
            }
            Self::Bucket { grid, number, units } if hold.is_released_at_end() => {
                let granted_in = bucket(*grid, hold.granted_at);
                if granted_in > *number {
                    (*number, *units) = (granted_in, 0);
                }
                if granted_in == *number {
                    change_units(units, hold.units);
                }
            }
            _ => {}
        }
    }

    /// The first time, `t` or later, at which at most `level` units are in use, given that all holds have ended at `t`.
    #[inline]
    pub(super) fn falls_to(&self, state: &LimitState, grid: Grid, newest: i64, level: u64, t: i64) -> Option<i64> {
        match (*self, state) {
            (Self::Windows { current, .. }, LimitState::Fixed(count)) => {
                let count = WindowCount(count.0.saturating_sub(current));
                Some(count.at(grid, newest, t).falls_to(level))
            }
            (Self::Windows { current, previous, .. }, LimitState::Counter(counts)) => {
                let counts = WindowCounts {
                    current: counts.current.saturating_sub(current),
                    previous: counts.previous.saturating_sub(previous),
                };
                Some(counts.at(grid, newest, t).falls_to(level))
            }
            (Self::Debt { debt: given_back, .. }, LimitState::Gcra(debt)) => {
                let debt = Debt::new(debt.unit_micros().saturating_sub(given_back));
                Some(debt.at(grid, newest, t).falls_to(level))
            }
            _ => None,
        }
    }

    /// The first time at which no units are in use, if units that were charged in the window of the newest charge stay in use
    /// when all holds have ended. `None` if that is not known.
    #[inline]
    pub(super) fn newest_window_resets_at(&self, state: &LimitState, grid: Grid, newest: i64) -> Option<i64> {
        let Self::Windows { start, current, .. } = *self else { return None };
        if !self.are_of(state, grid, newest) {
            return None;
        }
        let end = start + grid.window;
        match state {
            LimitState::Fixed(count) => (count.0 > current).then_some(end),
            LimitState::Counter(counts) => counts.current_resets_at(current, grid, end),
            _ => None,
        }
    }

    /// Units of the holds that were granted in this bucket, if none was granted in a later one.
    #[inline]
    pub(super) fn in_bucket(&self, wanted: i64) -> u64 {
        match self {
            Self::Bucket { number, units, .. } if *number == wanted => *units,
            _ => 0,
        }
    }
}
