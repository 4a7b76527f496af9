//! [`Forecast`]: the time at which the units in use fall to a level, when reservations end meanwhile.
//!
//! Without further requests the units in use never grow: a hold that ends gives units back, and a lease that ends becomes a
//! charge of the same units. So the time is found by a search over the ends, and between two ends by the algorithm itself.

use std::sync::Arc;

use super::{
    log_forecast::{Dates, LogForecast},
    open::{Kind, Reservation, Reservations},
};
use crate::{
    algorithms::{LimitState, log::Log},
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
        if let Some((log, dates)) = self.log(state, is_stable, no_lease) {
            // The newest entry stays until it expires, unless holds charged all of it.
            let held = || self.reservations.held_at(view.newest);
            if is_stable
                && no_lease
                && level == 0
                && matches!(state, LimitState::Log(log) if log.units_at_newest() > held())
            {
                return plain;
            }
            let forecast = LogForecast { view, spec, state, log, dates, reservations: self.reservations };
            return if is_stable && no_lease && level == 0 {
                forecast.unused_at(t)
            } else {
                forecast.falls_to(level, t)
            };
        }
        match state {
            LimitState::Fixed(_) | LimitState::Counter(_) | LimitState::Gcra(_) if is_stable => {
                self.walk(state.clone(), view.newest, spec, level, t)
            }
            _ => self.search(view, spec, level, t),
        }
    }

    /// The log that a limit reads, if the ends of the reservations change it in one way only.
    fn log<'a>(&'a self, state: &'a LimitState, is_stable: bool, no_lease: bool) -> Option<(&'a Log, Dates<'a>)> {
        let longest_window = self.layout.longest_window();
        match (self.states, state) {
            (LimitStates::One(LimitState::Log(log)), _) if is_stable || no_lease => {
                Some((log, Dates::Micros { longest_window }))
            }
            // The units of a lease that ends may be in the same bucket as those of a hold.
            (_, LimitState::Buckets(log)) if is_stable && no_lease => Some((log, Dates::Buckets)),
            (LimitStates::Migrating(history), _) if no_lease => Some((history.log()?, Dates::History(self.layout))),
            _ => None,
        }
    }

    /// The same for a small state: ends the reservations one after another in a copy of it.
    fn walk(&self, mut state: LimitState, mut newest: i64, spec: &LimitSpec, level: u64, t: i64) -> i64 {
        let mut leased = self.reservations.leased();
        let mut start = t;
        for open in self.reservations.iter() {
            let (before, newest_before, leased_before) = (state.clone(), newest, leased);
            match open.kind {
                Kind::Lease => {
                    state.charge(spec, newest, open.units, open.until, true);
                    leased -= open.units;
                    newest = newest.max(open.until);
                }
                _ if open.is_released_at_end() => {
                    state.refund(spec, newest, open.units, open.granted_at, open.until);
                }
                _ => continue,
            }
            if state.used(spec, newest, open.until) + leased <= level {
                let falls_to = |level| before.falls_to(spec, newest_before, level, start);
                return level.checked_sub(leased_before).map_or(open.until, falls_to).min(open.until);
            }
            start = open.until;
        }
        state.falls_to(spec, newest, level, start)
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
