//! One key under one policy: how its `now` is read, and what is written.

use std::borrow::Cow;

use super::history::History;
use super::reshape::Passage;
use super::{Algo, Cap, MINUTE, Micros, Rule, Units};

/// The state of one (policy, key): the newest charge's time, and every charge of each limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subject {
    pub(crate) newest: Option<Micros>,
    /// The policy as it was at the last write.
    pub(crate) rule: Option<Rule>,
    pub(crate) limits: Vec<History>,
    /// A change of shape that is not yet over.
    pub(crate) passage: Option<Passage>,
}

impl Subject {
    /// Whether `now` lags so far that it is believed.
    pub(crate) fn lags_far(&self, rule: &Rule, now: Micros) -> bool {
        self.newest.is_some_and(|newest| newest - now > rule.longest_window() && newest - now > MINUTE)
    }

    /// `now` as the store reads it, where it isn't believed.
    pub(crate) fn reads(&self, now: Micros) -> Micros {
        self.newest.map_or(now, |newest| now.max(newest))
    }

    /// Writes down a `now` that lags far: what was in use at the newest charge is in use now.
    pub(crate) fn believe(&mut self, rule: &Rule, now: Micros) {
        if !self.lags_far(rule, now) {
            return;
        }
        let (Some(newest), Some(stored)) = (self.newest, &self.rule) else { return };
        for (history, cap) in self.limits.iter_mut().zip(&stored.caps) {
            history.redate(stored.algo, *cap, newest, now);
        }
        self.newest = Some(now);
    }

    /// This state as a request under `rule` at `now` finds it, with nothing written.
    pub(crate) fn under(&self, rule: &Rule, now: Micros) -> Cow<'_, Self> {
        match &self.rule {
            Some(stored) if stored.same_shape(rule) => Cow::Borrowed(self),
            _ => Cow::Owned(self.reshaped(rule, self.reads(now))),
        }
    }

    /// The units in use by limit `i` at `now`, as read.
    pub(crate) fn used(&self, rule: &Rule, i: usize, now: Micros) -> Units {
        let seen = self.under(rule, now);
        seen.limits[i].used(rule.algo, rule.caps[i]).at(self.reads(now))
    }

    /// Charges every limit, at `now` as read, which becomes the newest charge's time.
    pub(crate) fn charge(&mut self, rule: &Rule, cost: Units, now: Micros) {
        let t = self.reads(now);
        let same_shape = self.rule.as_ref().is_some_and(|stored| stored.same_shape(rule));
        self.passage = self.passage.filter(|passage| !same_shape || t <= passage.over());
        *self = self.under(rule, now).into_owned();
        self.rule = Some(rule.clone());
        self.newest = Some(t);
        for (history, cap) in self.limits.iter_mut().zip(&rule.caps) {
            history.charge(*cap, cost, t);
        }
    }

    /// Gives units back to the moment they were charged; whether there was something to give back.
    pub(crate) fn refund(&mut self, rule: &Rule, units: Units, charged_at: Micros, now: Micros) -> bool {
        self.believe(rule, now);
        let t = self.reads(now);
        if self.newest.is_none_or(|newest| charged_at > newest) {
            return false;
        }
        // A state of another shape stays in it: only a charge changes it.
        let held = match &self.rule {
            Some(stored) if !stored.same_shape(rule) => stored.clone(),
            _ => rule.clone(),
        };
        let mut returned = false;
        for (history, cap) in self.limits.iter_mut().zip(&held.caps) {
            // The limits of a log share one history: what the longest window holds is given back to all.
            let window = if held.algo == Algo::Log { held.longest_window() } else { cap.window };
            returned |= history.refund(held.algo, Cap { window, ..*cap }, units, charged_at, t);
        }
        returned
    }
}
