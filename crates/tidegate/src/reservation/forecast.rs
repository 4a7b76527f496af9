//! [`Forecast`]: the time at which the units in use fall to a level, when reservations end meanwhile.
//!
//! Without further requests the units in use never grow: a hold that ends gives units back, and a lease that ends becomes a
//! charge of the same units. So the time is found by a search over the ends, and between two ends by the algorithm itself.

use std::sync::Arc;

use super::{
    log_forecast::LogForecast,
    open::{Kind, Reservations},
};
use crate::{
    algorithms::LimitState,
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
        let state = view.state(spec);
        let plain = state.falls_to(spec, view.newest, level, t);
        let no_lease = self.reservations.leased() == 0;
        if no_lease && self.reservations.first_end().is_none_or(|end| end >= plain) {
            return plain;
        }
        // While a layout changes, every change of a state converts it.
        let is_stable = self.layout.id() == self.policy.layout().id() && self.states.states().is_some();
        match state {
            LimitState::Log(log) if is_stable => {
                // The newest entry stays until it expires, unless holds charged all of it.
                let stays = log.units_at_newest() > self.reservations.held_at(view.newest);
                if no_lease && level == 0 && stays {
                    return plain;
                }
                let forecast = LogForecast { view, spec, log, is_log: true };
                if no_lease && level == 0 {
                    return forecast.unused_at(self.reservations, t);
                }
                forecast.falls_to(self.reservations, level, t)
            }
            // The units of a lease that ends may be in the same bucket as those of a hold.
            LimitState::Buckets(log) if is_stable && no_lease => {
                let forecast = LogForecast { view, spec, log, is_log: false };
                if level == 0 {
                    return forecast.unused_at(self.reservations, t);
                }
                forecast.falls_to(self.reservations, level, t)
            }
            LimitState::Fixed(_) | LimitState::Counter(_) | LimitState::Gcra(_) if is_stable => {
                self.walk(state.clone(), view.newest, spec, level, t)
            }
            _ => self.search(view, spec, level, t),
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

    /// The same while a layout changes: searches over the ends in copies of the state.
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
