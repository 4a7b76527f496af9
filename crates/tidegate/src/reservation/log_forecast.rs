//! [`LogForecast`]: a [`Forecast`](super::forecast::Forecast) of a limit that reads a log of dated units.
//!
//! At a time `t`, the units dated after `x` are those of the log, less what the holds that have ended by `t` have given
//! back. Those of one slot (an entry of a log, a bucket, or a range of dates under another layout) give back at most the
//! units of the slot, the newest ones first. So with `given(t)` units to give back in a slot, and `left(x)` units of it
//! dated after `x`, the slot loses `min(given(t), left(x))` units.
//!
//! Units in use never grow, so two searches find a time: one over the ends, and one over the times between two ends. They
//! copy nothing, because a log may be long. Each step of the first one reads every hold once, and each step of the second
//! one reads none.

use std::cmp::Reverse;

use super::open::{Reservation, Reservations};
use crate::{
    algorithms::{
        LimitState, UsageAt,
        fixed_window::WindowCount,
        log::Log,
        sliding_buckets::{bucket, first_instant},
        sliding_counter::WindowCounts,
        sliding_log,
    },
    layout::{Layout, LimitSpec},
    migration::released_dates,
};

/// The forecast of a limit that reads a log of dated units.
pub(super) struct LogForecast<'a> {
    /// The time of the newest charge.
    pub(super) newest: i64,
    pub(super) spec: &'a LimitSpec,
    /// The state that the policy reads, converted from `log` if that has another layout.
    pub(super) state: &'a LimitState,
    pub(super) log: &'a Log,
    pub(super) dates: Dates<'a>,
    pub(super) reservations: &'a Reservations,
}

/// The dates of the entries of a log.
#[derive(Clone, Copy)]
pub(super) enum Dates<'a> {
    /// Microseconds. The log covers this window.
    Micros { longest_window: i64 },
    /// Numbers of buckets.
    Buckets,
    /// Microseconds, of a history in which a charge under this layout was in any entry of its slot.
    History(&'a Layout),
}

/// A hold that gives units back.
struct Release {
    until: i64,
    units: u64,
    slot: usize,
}

/// The entries from which some holds give units back.
struct Slot {
    first: i64,
    last: i64,
    /// Units of the entries.
    units: u64,
}

/// What the holds that have ended give back.
struct Given<'a> {
    slots: &'a [Slot],
    /// Units to give back in each slot.
    units: Vec<u64>,
    /// Units that this slot and all later ones lose.
    lost_from: Vec<u64>,
}

impl LogForecast<'_> {
    /// The first time, `t` or later, at which at most `level` units are in use.
    pub(super) fn falls_to(&self, level: u64, t: i64) -> i64 {
        let (slots, releases) = self.releases();
        let mut given = Given::of(&slots);
        let end_until = |given: &mut Given<'_>, end: i64| {
            given.set(&releases[..releases.partition_point(|release| release.until <= end)]);
        };
        let later = releases.partition_point(|release| {
            end_until(&mut given, release.until);
            self.used(&given, release.until) > level
        });
        let start = if later == 0 { t } else { releases[later - 1].until };
        let end = releases.get(later).map_or_else(|| self.unused_by(), |release| release.until);
        end_until(&mut given, start);
        if self.used(&given, start) <= level {
            return start;
        }
        // More than `level` units are in use at `before`, and at most `level` at `then`.
        let (mut before, mut then) = (start, end);
        while then - before > 1 {
            let middle = before.midpoint(then);
            if self.used(&given, middle) > level { before = middle } else { then = middle }
        }
        then
    }

    /// Units in use at `t`, with what the ended holds give back. A lease counts from now on until its units expire.
    fn used(&self, given: &Given<'_>, t: i64) -> u64 {
        let (grid, newest) = (self.spec.grid, self.newest);
        let after = |date: i64| self.units_after(given, date);
        match self.state {
            LimitState::Log(_) => after(t - grid.window) + self.leased_after(t - grid.window),
            LimitState::Buckets(_) => match self.dates {
                Dates::Buckets => after(bucket(grid, t) - grid.buckets - 1),
                _ => after(first_instant(grid, bucket(grid, t) - grid.buckets) - 1),
            },
            LimitState::Fixed(_) => WindowCount(after(grid.start(newest) - 1)).at(grid, newest, t).used(),
            LimitState::Counter(_) => {
                let current = after(grid.start(newest) - 1);
                let previous = after(grid.start(newest) - grid.window - 1) - current;
                WindowCounts { current, previous }.at(grid, newest, t).used()
            }
            LimitState::Gcra(_) => 0,
        }
    }

    /// Units dated after `date`, without those that the ended holds have given back.
    fn units_after(&self, given: &Given<'_>, date: i64) -> u64 {
        let units = self.log.units_after(self.newest_entry(), date);
        let next = given.slots.partition_point(|slot| slot.last <= date);
        match given.slots.get(next) {
            // A part of the slot is dated after `date`.
            Some(slot) if slot.first <= date => {
                let left = units - self.log.units_after(self.newest_entry(), slot.last);
                units - given.units[next].min(left) - given.lost_from[next + 1]
            }
            _ => units - given.lost_from[next],
        }
    }

    /// Units of leases that end after `date`.
    fn leased_after(&self, date: i64) -> u64 {
        if self.reservations.leased() == 0 {
            return 0;
        }
        self.reservations.iter().filter(|open| open.is_lease() && open.until > date).map(|lease| lease.units).sum()
    }

    /// A time at which no units are in use.
    fn unused_by(&self) -> i64 {
        let last_end = self.reservations.last_end().unwrap_or(self.newest);
        // A counter or a bucket counts units for up to two windows.
        last_end.max(self.newest) + 2 * self.spec.grid.window + 2
    }

    /// The slots from which holds give units back, oldest first, and those holds, in the order of their ends.
    fn releases(&self) -> (Vec<Slot>, Vec<Release>) {
        let holds = self.reservations.iter().filter_map(|open| Some((open, self.slot_of(open)?)));
        let holds: Vec<(&Reservation, (i64, i64))> = holds.collect();
        let mut ranges: Vec<(i64, i64)> = holds.iter().map(|(_, range)| *range).collect();
        ranges.sort_unstable();
        ranges.dedup();
        let newest = self.newest_entry();
        let units: Vec<u64> = match self.dates {
            Dates::History(_) => {
                let units_of = |(first, last): &(i64, i64)| {
                    self.log.units_after(newest, *first - 1) - self.log.units_after(newest, *last)
                };
                ranges.iter().map(units_of).collect()
            }
            _ => {
                let mut units = self.log.units_at_each(newest, ranges.iter().rev().map(|(first, _)| *first));
                units.reverse();
                units
            }
        };
        let release = |(open, range): &(&Reservation, (i64, i64))| Release {
            until: open.until,
            units: open.units,
            slot: ranges.partition_point(|other| other < range),
        };
        let releases = holds.iter().map(release).collect();
        let slots = ranges.iter().zip(units).map(|(&(first, last), units)| Slot { first, last, units });
        (slots.collect(), releases)
    }

    /// The first and the last entry from which a hold gives units back when it ends, if it does.
    fn slot_of(&self, open: &Reservation) -> Option<(i64, i64)> {
        let release = open.release()?;
        match self.dates {
            Dates::Micros { longest_window } => {
                sliding_log::released_entry(longest_window, release).map(|entry| (entry, entry))
            }
            Dates::Buckets => {
                let number = bucket(self.spec.grid, release.granted_at);
                Some((number, number))
            }
            Dates::History(layout) => {
                let dates = released_dates(layout, self.newest, release.granted_at, release.until)?;
                Some((dates.start, dates.end - 1))
            }
        }
    }

    /// The first time, `t` or later, at which no units are in use, if the log has the layout of the policy and no lease is
    /// open.
    ///
    /// It reads the entries from the newest one on. An entry counts until it expires, or until its last hold ends if holds
    /// charged all of it. The search ends at the first entry that expires before a newer one has stopped to count.
    pub(super) fn unused_at(&self, t: i64) -> i64 {
        let (newest, reservations) = (self.newest_entry(), self.reservations);
        // The newest entry stays until it expires, unless holds charged all of it.
        if matches!(self.dates, Dates::Micros { .. }) && self.log.units_at_newest() > reservations.held_at(self.newest)
        {
            return self.expiry(newest).max(t);
        }
        let is_newest = |open: &&Reservation| open.is_released_at_end() && self.entry(open.granted_at) == newest;
        // In a bucket, a hold that was granted before may give back units of the newest one.
        if !matches!(self.dates, Dates::Buckets)
            && self.log.units_at_newest() == reservations.held_at(self.newest)
            && let Some(last) = reservations.iter().rev().find(is_newest)
        {
            let unused = last.until.min(self.expiry(newest)).max(t);
            let Some(before) = self.log.last_closed() else { return unused };
            let expiry = self.expiry(before);
            let is_before = |open: &Reservation| open.is_released_at_end() && self.entry(open.granted_at) == before;
            if unused >= expiry || !reservations.iter().any(is_before) {
                return unused.max(expiry);
            }
        }
        let mut holds: Vec<(i64, i64, u64)> = reservations
            .iter()
            .filter(|open| open.is_released_at_end())
            .map(|open| (self.entry(open.granted_at), open.until, open.units))
            .collect();
        // Stable, so that the holds of an entry stay in the order of their ends.
        holds.sort_by_key(|(entry, ..)| Reverse(*entry));
        let mut holds = holds.into_iter().peekable();
        let mut unused = t;
        for (entry, mut units) in self.log.entries_newest_first(newest, i64::MAX) {
            let expiry = self.expiry(entry);
            if expiry <= unused {
                break;
            }
            while holds.next_if(|(of, ..)| *of > entry).is_some() {}
            while let Some((_, until, held)) = holds.next_if(|(of, ..)| *of == entry) {
                if units > 0 {
                    unused = unused.max(until.min(expiry));
                }
                units = units.saturating_sub(held);
            }
            if units > 0 {
                return expiry;
            }
        }
        unused
    }

    fn newest_entry(&self) -> i64 {
        self.entry(self.newest)
    }

    /// The entry that contains a charge.
    fn entry(&self, time: i64) -> i64 {
        if matches!(self.dates, Dates::Buckets) { bucket(self.spec.grid, time) } else { time }
    }

    /// The first time at which an entry no longer counts, if the log has the layout of the policy.
    fn expiry(&self, entry: i64) -> i64 {
        match self.dates {
            Dates::Buckets => first_instant(self.spec.grid, entry + self.spec.grid.buckets + 1),
            _ => entry + self.spec.grid.window,
        }
    }
}

impl<'a> Given<'a> {
    fn of(slots: &'a [Slot]) -> Self {
        Self { slots, units: vec![0; slots.len()], lost_from: vec![0; slots.len() + 1] }
    }

    /// Sets what these holds give back.
    fn set(&mut self, ended: &[Release]) {
        self.units.fill(0);
        for release in ended {
            self.units[release.slot] += release.units;
        }
        for (i, slot) in self.slots.iter().enumerate().rev() {
            self.lost_from[i] = self.lost_from[i + 1] + slot.units.min(self.units[i]);
        }
    }
}
