//! [`Forecast`]: the time at which the units in use fall to a level, when reservations end meanwhile.
//!
//! Without further requests the units in use never grow: a hold that ends gives units back, and a lease that ends becomes a
//! charge of the same units. So the time is found by a search over the ends, and between two ends by the algorithm itself.

use std::sync::Arc;

use super::{
    log_forecast::{Dates, LogForecast},
    open::{Reservation, Reservations},
};
use crate::{
    algorithms::{LimitState, Release, log::Log},
    layout::{Layout, LimitSpec},
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
        let no_lease = self.reservations.leased() == 0;
        let Some(state) = view.state(spec) else {
            return if no_lease { t } else { self.search(view, spec, level, t) };
        };
        let plain = state.falls_to(spec, view.newest, level, t);
        if no_lease && self.reservations.first_end().is_none_or(|end| end >= plain) {
            return plain;
        }
        // While a layout changes, every change of a state converts it.
        let is_stable = self.layout.id() == self.policy.layout().id() && self.states.states().is_some();
        let (newest, reservations) = (view.newest, self.reservations);
        let known = if is_stable { falls_to(state, spec, newest, reservations, level, t) } else { None };
        let in_history = || {
            let (log, dates) = self.history().filter(|_| no_lease)?;
            Some(LogForecast { newest, spec, state, log, dates, reservations }.falls_to(level, t))
        };
        known.or_else(in_history).unwrap_or_else(|| self.search(view, spec, level, t))
    }

    /// The log from which holds give units back while the layout changes, if there is one.
    fn history(&self) -> Option<(&Log, Dates<'_>)> {
        match self.states {
            LimitStates::One(LimitState::Log(log)) => {
                Some((log, Dates::Micros { longest_window: self.layout.longest_window() }))
            }
            LimitStates::Migrating(history) => Some((history.log()?, Dates::History(self.layout))),
            _ => None,
        }
    }

    /// The same for a state of another layout: searches over the ends in copies of the state. Each reservation ends once.
    fn search(&self, view: &StateView<'_>, spec: &LimitSpec, level: u64, t: i64) -> i64 {
        let limit = view.specs.iter().position(|other| std::ptr::eq(other, spec)).unwrap_or(0);
        let open: Vec<&Reservation> = self.reservations.iter().collect();
        let state = StoredState { newest: view.newest, layout: Arc::clone(self.layout), states: self.states.clone() };
        // More than `level` units are in use after the ends of the reservations before `first`.
        let mut before = StateAfterEnds { state, leased: self.reservations.leased() };
        let (mut first, mut last, mut start) = (0, open.len(), t);
        while first < last {
            let middle = first.midpoint(last);
            let mut then = before.clone();
            then.end(self.policy, &open[first..=middle]);
            let end = open[middle].until;
            if then.used(self.policy, limit, end) > level {
                (before, first, start) = (then, middle + 1, end);
            } else {
                last = middle;
            }
        }
        let found = before.falls_to(self.policy, limit, level, start);
        let end = open.get(first).map(|open| open.until);
        found.into_iter().chain(end).min().unwrap_or(start)
    }
}

/// The first time, `t` or later, at which at most `level` units are in use under a limit whose state has the layout of the
/// policy. `None` for buckets of a key with leases: the units of a lease that ends may be in the same bucket as those of a
/// hold.
pub(crate) fn falls_to(
    state: &LimitState,
    spec: &LimitSpec,
    newest: i64,
    reservations: &Reservations,
    level: u64,
    t: i64,
) -> Option<i64> {
    let no_lease = reservations.leased() == 0;
    let (log, dates) = match state {
        LimitState::Log(log) => (log, Dates::Micros { longest_window: spec.longest_window }),
        LimitState::Buckets(log) if no_lease => (log, Dates::Buckets),
        LimitState::Buckets(_) => return None,
        _ => return Some(walk(state.clone(), newest, spec, reservations, level, t)),
    };
    let forecast = LogForecast { newest, spec, state, log, dates, reservations };
    Some(if no_lease && level == 0 { forecast.unused_at(t) } else { forecast.falls_to(level, t) })
}

/// The same for a small state: ends the reservations one after another in a copy of it.
fn walk(
    mut state: LimitState,
    mut newest: i64,
    spec: &LimitSpec,
    reservations: &Reservations,
    level: u64,
    t: i64,
) -> i64 {
    let mut leased = reservations.leased();
    let mut start = t;
    for open in reservations.iter() {
        let (before, newest_before, leased_before) = (state.clone(), newest, leased);
        match (open.is_lease(), open.release()) {
            (true, _) => {
                state.charge(spec, newest, open.units, open.until, true);
                leased -= open.units;
                newest = newest.max(open.until);
            }
            (false, Some(Release { units, granted_at, until })) => {
                state.refund(spec, newest, units, granted_at, until);
            }
            (false, None) => continue,
        }
        if state.used(spec, newest, open.until) + leased <= level {
            let falls_to = |level| before.falls_to(spec, newest_before, level, start);
            return level.checked_sub(leased_before).map_or(open.until, falls_to).min(open.until);
        }
        start = open.until;
    }
    state.falls_to(spec, newest, level, start)
}

/// A state after some reservations have ended, and the units of the leases that are still open.
#[derive(Clone)]
struct StateAfterEnds {
    state: StoredState,
    leased: u64,
}

impl StateAfterEnds {
    fn end(&mut self, policy: &Policy, ended: &[&Reservation]) {
        self.leased -= ended.iter().filter(|open| open.is_lease()).map(|lease| lease.units).sum::<u64>();
        self.state.end_all(policy, ended.iter().copied(), true);
    }

    fn used(&self, policy: &Policy, limit: usize, t: i64) -> u64 {
        self.state.read(policy, |view| view.used(&view.specs[limit], t)) + self.leased
    }

    fn falls_to(&self, policy: &Policy, limit: usize, level: u64, t: i64) -> Option<i64> {
        let level = level.checked_sub(self.leased)?;
        Some(self.state.read(policy, |view| view.falls_to(&view.specs[limit], level, t)))
    }
}
