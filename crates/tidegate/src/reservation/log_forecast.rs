//! [`LogForecast`]: a [`Forecast`](super::forecast::Forecast) of a limit whose state is a log.

use std::cmp::Reverse;

use super::open::{Reservation, Reservations};
use crate::{
    algorithms::{
        log::Log,
        sliding_buckets::{bucket, first_instant},
    },
    layout::LimitSpec,
    limit_states::StateView,
};

/// The forecast of a limit whose state is a log. It copies nothing, because a log may be long.
pub(super) struct LogForecast<'a> {
    pub(super) view: &'a StateView<'a>,
    pub(super) spec: &'a LimitSpec,
    pub(super) log: &'a Log,
    /// Whether entries are dated in microseconds and not in buckets.
    pub(super) is_log: bool,
}

/// A time and the sums of all changes up to it.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    time: i64,
    /// Units that holds have given back, of entries that have not expired.
    released: u64,
    /// Units of leases whose entry has expired.
    expired_leases: u64,
}

impl Step {
    /// Units in use, given the charged units and those of all leases.
    fn units_in_use(&self, charged: u64, leased: u64) -> u64 {
        (charged + leased).saturating_sub(self.released + self.expired_leases)
    }
}

/// A change of the units in use, other than that an entry expires.
enum Change {
    Released(u64),
    ReleasedExpires(u64),
    LeaseExpires(u64),
}

/// Units that a hold gives back at its end, unless their entry in the log has expired before.
struct Release {
    until: i64,
    entry: i64,
    expires: i64,
    units: u64,
}

impl LogForecast<'_> {
    /// The first time, `t` or later, at which at most `level` units are in use.
    ///
    /// Between two steps only entries expire that no hold gives back, so the log itself has the answer.
    pub(super) fn falls_to(&self, reservations: &Reservations, level: u64, t: i64) -> i64 {
        let leased = reservations.leased();
        let steps = self.steps(reservations, t);
        let charged = |x: i64| self.view.state(self.spec).used(self.spec, self.view.newest, x);
        let later = steps.partition_point(|step| step.units_in_use(charged(step.time), leased) > level);
        let start = if later == 0 { Step { time: t, ..Step::default() } } else { steps[later - 1] };
        let end = steps.get(later).map_or(i64::MAX, |step| step.time);
        // The number of charged units at which `level` units are in use.
        let Some(charged) = (level + start.released).checked_sub(leased - start.expired_leases) else { return end };
        self.view.state(self.spec).falls_to(self.spec, self.view.newest, charged, start.time.max(t)).min(end)
    }

    /// The times after `t` at which other units than those of expiring entries stop to count, or at which an entry expires
    /// from which units were given back. A hold that ends after its entry has expired changes nothing.
    fn steps(&self, reservations: &Reservations, t: i64) -> Vec<Step> {
        let releases = self.releases(reservations);
        let counts = |release: &&Release| release.units > 0 && release.until < release.expires;
        let mut changes: Vec<(i64, Change)> = Vec::with_capacity(2 * releases.len());
        for release in releases.iter().filter(counts) {
            changes.push((release.until, Change::Released(release.units)));
            changes.push((release.expires, Change::ReleasedExpires(release.units)));
        }
        for lease in reservations.iter().filter(|open| open.is_lease()) {
            changes.push((self.expiry(lease.until), Change::LeaseExpires(lease.units)));
        }
        changes.sort_by_key(|(time, _)| *time);
        let mut steps: Vec<Step> = Vec::with_capacity(changes.len());
        let mut now = Step { time: t, ..Step::default() };
        for (time, change) in changes {
            match change {
                Change::Released(units) => now.released += units,
                Change::ReleasedExpires(units) => now.released -= units,
                Change::LeaseExpires(units) => now.expired_leases += units,
            }
            now.time = time;
            match steps.last_mut() {
                Some(last) if last.time == time => *last = now,
                _ => steps.push(now),
            }
        }
        steps
    }

    /// The first time, `t` or later, at which no units are in use, if no lease is open.
    ///
    /// It reads the entries from the newest one on. An entry counts until it expires, or until its last hold ends if holds
    /// charged all of it. The search ends at the first entry that expires before a newer one has stopped to count.
    pub(super) fn unused_at(&self, reservations: &Reservations, t: i64) -> i64 {
        let newest = self.entry(self.view.newest);
        let is_newest = |open: &&Reservation| open.is_released_at_end() && self.entry(open.granted_at) == newest;
        // In a bucket, a hold that was granted before may give back units of the newest one.
        if self.is_log
            && self.log.units_at_newest() == reservations.held_at(self.view.newest)
            && let Some(last) = reservations.iter().rev().find(is_newest)
        {
            let unused = last.until.min(self.expiry(self.view.newest)).max(t);
            let Some(before) = self.log.last_closed() else { return unused };
            let expiry = self.expiry_of_entry(before);
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
        for (entry, mut units) in self.log.entries_newest_first(newest) {
            let expiry = self.expiry_of_entry(entry);
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

    /// The units that each hold gives back at its end, in the order of the ends. A refund may have returned some already.
    fn releases(&self, reservations: &Reservations) -> Vec<Release> {
        let release = |open: &Reservation| {
            let entry = self.entry(open.granted_at);
            Release { until: open.until, entry, expires: self.expiry_of_entry(entry), units: open.units }
        };
        let mut releases: Vec<Release> =
            reservations.iter().filter(|open| open.is_released_at_end()).map(release).collect();
        let mut by_entry: Vec<usize> = (0..releases.len()).collect();
        by_entry.sort_by_key(|i| Reverse(releases[*i].entry));
        let newest = self.entry(self.view.newest);
        let units = self.log.units_at_each(newest, by_entry.iter().map(|i| releases[*i].entry));
        let (mut entry, mut left) = (i64::MAX, 0);
        for (i, units) in by_entry.into_iter().zip(units) {
            let release = &mut releases[i];
            if release.entry != entry {
                (entry, left) = (release.entry, units);
            }
            release.units = release.units.min(left);
            left -= release.units;
        }
        releases
    }

    /// The time of the entry that contains a charge: a microsecond or the number of a bucket.
    fn entry(&self, time: i64) -> i64 {
        if self.is_log { time } else { bucket(self.spec.grid, time) }
    }

    /// The first time at which a charge at `time` no longer counts.
    fn expiry(&self, time: i64) -> i64 {
        self.expiry_of_entry(self.entry(time))
    }

    /// The first time at which an entry no longer counts.
    fn expiry_of_entry(&self, entry: i64) -> i64 {
        if self.is_log {
            entry + self.spec.grid.window
        } else {
            first_instant(self.spec.grid, entry + self.spec.grid.buckets + 1)
        }
    }
}
