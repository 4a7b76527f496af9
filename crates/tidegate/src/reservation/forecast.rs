//! [`Forecast`]: the time at which the units in use fall to a level, when reservations end meanwhile.
//!
//! Without further requests the units in use never grow: a hold that ends gives units back, and a lease that ends becomes a
//! charge of the same units. So the time is found by a search over the ends, and between two ends by the algorithm itself.

use std::{cmp::Reverse, sync::Arc};

use super::open::{Reservation, Reservations};
use crate::{
    algorithms::{
        LimitState,
        log::Log,
        sliding_buckets::{bucket, first_instant},
    },
    layout::{Grid, Layout, LimitSpec},
    limit_states::{LimitStates, StateView},
    policy::Policy,
    stored_state::StoredState,
};

/// A state with open reservations, as a policy reads it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forecast<'a> {
    pub(crate) reservations: &'a Reservations,
    /// The stored states, without the reservations.
    pub(crate) states: &'a LimitStates,
    /// The layout of the stored states.
    pub(crate) layout: &'a Arc<Layout>,
    pub(crate) policy: &'a Policy,
}

impl Forecast<'_> {
    /// Units in use under a limit that the algorithm does not count: those of open leases under a limit with a window, and
    /// those of open holds under a limit on them.
    pub(crate) fn reserved(&self, spec: &LimitSpec) -> u64 {
        if spec.is_in_flight() { self.reservations.held() } else { self.reservations.leased() }
    }

    /// The first time, `t` or later, at which at most `level` units are in use under a limit.
    pub(crate) fn falls_to(&self, view: &StateView<'_>, spec: &LimitSpec, level: u64, t: i64) -> i64 {
        if spec.is_in_flight() {
            return self.reservations.held_falls_to(level, t);
        }
        let state = view.state(spec);
        let plain = state.falls_to(spec, view.newest, level, t);
        let no_lease = self.reservations.leased() == 0;
        if no_lease && self.reservations.first_end().is_none_or(|end| end >= plain) {
            return plain;
        }
        let same_layout = self.layout.id() == self.policy.layout().id();
        match (state, self.states) {
            (LimitState::Log(log) | LimitState::Buckets(log), LimitStates::One(_) | LimitStates::Many(_))
                // The units of a lease that ends may be in the same bucket as those of a hold.
                if same_layout && (no_lease || matches!(state, LimitState::Log(_))) =>
            {
                let is_log = matches!(state, LimitState::Log(_));
                // The newest entry stays until it expires, unless holds charged all of it.
                let stays = log.units_at_newest() > self.reservations.held_at(view.newest);
                if no_lease && level == 0 && is_log && stays {
                    return plain;
                }
                let forecast = LogForecast { view, spec, log, grid: spec.grid, is_log };
                if no_lease && level == 0 {
                    return forecast.unused_at(self.reservations, t);
                }
                forecast.falls_to(self.reservations, level, t)
            }
            _ => self.search(view, spec, level, t),
        }
    }

    /// The same for any state: searches over the ends in copies of the state.
    fn search(&self, view: &StateView<'_>, spec: &LimitSpec, level: u64, t: i64) -> i64 {
        let limit = view.specs.iter().position(|other| std::ptr::eq(other, spec)).unwrap_or(0);
        // Most waits end after all of the reservations.
        if let Some(last_end) = self.reservations.last_end() {
            let after = self.after(view.newest, last_end);
            if after.used(self.policy, limit, last_end) > level {
                return after.falls_to(self.policy, limit, level, last_end).unwrap_or(last_end);
            }
        }
        let ends: Vec<i64> = self.reservations.iter().map(|open| open.until).collect();
        let used = |end: &i64| self.after(view.newest, *end).used(self.policy, limit, *end);
        let later = ends.partition_point(|end| used(end) > level);
        let start = if later == 0 { t } else { ends[later - 1] };
        let found = self.after(view.newest, start).falls_to(self.policy, limit, level, start);
        match (found, ends.get(later)) {
            (Some(found), Some(end)) => found.min(*end),
            (Some(found), None) => found,
            (None, Some(end)) => *end,
            (None, None) => start,
        }
    }

    /// The state after the reservations that end by `time`.
    fn after(&self, newest: i64, time: i64) -> StateAfterEnds {
        let mut state = StoredState { newest, layout: Arc::clone(self.layout), states: self.states.clone() };
        let mut leased = self.reservations.leased();
        for open in self.reservations.iter().take_while(|open| open.until <= time) {
            state.end(self.policy, open, true);
            leased -= if open.is_lease() { open.units } else { 0 };
        }
        StateAfterEnds { state, leased }
    }
}

/// A state after some reservations have ended, and the units of the leases that are still open.
struct StateAfterEnds {
    state: StoredState,
    leased: u64,
}

impl StateAfterEnds {
    fn used(&self, policy: &Policy, limit: usize, t: i64) -> u64 {
        self.state.read(policy, |view| view.used(&view.specs[limit], t)) + self.leased
    }

    fn falls_to(&self, policy: &Policy, limit: usize, level: u64, t: i64) -> Option<i64> {
        let level = level.checked_sub(self.leased)?;
        Some(self.state.read(policy, |view| view.falls_to(&view.specs[limit], level, t)))
    }
}

/// The forecast of a limit whose state is a log. It copies nothing, because a log may be long.
struct LogForecast<'a> {
    view: &'a StateView<'a>,
    spec: &'a LimitSpec,
    log: &'a Log,
    grid: Grid,
    /// Whether entries are dated in microseconds and not in buckets.
    is_log: bool,
}

/// Units that a hold gives back at its end, unless their entry in the log has expired before.
struct Release {
    until: i64,
    entry: i64,
    expires: i64,
    units: u64,
}

/// Units of a lease, which count until its entry in the log expires.
struct LeasedUnits {
    expires: i64,
    units: u64,
}

impl LogForecast<'_> {
    fn falls_to(&self, reservations: &Reservations, level: u64, t: i64) -> i64 {
        let releases = self.releases(reservations);
        let lease = |open: &Reservation| LeasedUnits { expires: self.expiry(open.until), units: open.units };
        let leases: Vec<LeasedUnits> = reservations.iter().filter(|open| open.is_lease()).map(lease).collect();
        let released_at = |x: i64, ended: i64| -> u64 {
            let counts = |release: &&Release| release.until <= ended && release.expires > x;
            releases.iter().filter(counts).map(|release| release.units).sum()
        };
        let leased_at =
            |x: i64| -> u64 { leases.iter().filter(|lease| lease.expires > x).map(|lease| lease.units).sum() };
        let used = |x: i64| {
            let charged = self.view.state(self.spec).used(self.spec, self.view.newest, x);
            charged.saturating_sub(released_at(x, x)) + leased_at(x)
        };
        let mut changes: Vec<i64> = releases.iter().map(|release| release.until).collect();
        changes.extend(leases.iter().map(|lease| lease.expires));
        changes.sort_unstable();
        let later = changes.partition_point(|change| used(*change) > level);
        let start = if later == 0 { t } else { changes[later - 1] };
        let end = changes.get(later).copied().unwrap_or(i64::MAX);
        // No hold ends and no lease expires from here to `end`. Only entries expire, and with them units that were released.
        let released = released_at(start, start);
        let Some(most) = (level + released).checked_sub(leased_at(start)) else { return end };
        let falls_to = |charged| self.view.state(self.spec).falls_to(self.spec, self.view.newest, charged, start);
        let fits = |charged| {
            let x = falls_to(charged);
            x >= end || used(x) <= level
        };
        // The greatest number of charged units at which at most `level` units are in use.
        let (mut fitting, mut too_many) = (most.saturating_sub(released), most + 1);
        if fits(most) {
            fitting = most;
        }
        while fitting + 1 < too_many && fitting < most {
            let middle = fitting.midpoint(too_many);
            if fits(middle) { fitting = middle } else { too_many = middle }
        }
        if fits(fitting) { falls_to(fitting).min(end) } else { end }
    }

    /// The first time, `t` or later, at which no units are in use, if no lease is open.
    ///
    /// It reads the entries from the newest one on. An entry counts until it expires, or until its last hold ends if holds
    /// charged all of it. The search ends at the first entry that expires before a newer one has stopped to count.
    fn unused_at(&self, reservations: &Reservations, t: i64) -> i64 {
        let newest = self.entry(self.view.newest);
        let is_newest = |open: &&Reservation| open.is_released_at_end() && self.entry(open.granted_at) == newest;
        if self.log.units_at_newest() == reservations.held_at(self.view.newest)
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
        if self.is_log { time } else { bucket(self.grid, time) }
    }

    /// The first time at which a charge at `time` no longer counts.
    fn expiry(&self, time: i64) -> i64 {
        self.expiry_of_entry(self.entry(time))
    }

    /// The first time at which an entry no longer counts.
    fn expiry_of_entry(&self, entry: i64) -> i64 {
        if self.is_log { entry + self.grid.window } else { first_instant(self.grid, entry + self.grid.buckets + 1) }
    }
}
