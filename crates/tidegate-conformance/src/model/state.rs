//! The state of one key under one policy.

use std::borrow::Cow;

use super::history::History;
use super::reservations::ModelReservation;
use super::shape_change::ShapeChange;
use super::{MINUTE, Micros, ModelAlgorithm, ModelLimit, ModelPolicy, Units};

/// The time of the newest charge, and every charge of each limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelState {
    pub(crate) newest_charge: Option<Micros>,
    /// The policy as it was at the last write.
    pub(crate) policy: Option<ModelPolicy>,
    /// One for each limit of the policy.
    pub(super) histories: Vec<History>,
    /// A change of shape that is not yet over.
    pub(crate) shape_change: Option<ShapeChange>,
    /// The open reservations.
    pub(super) reservations: Vec<ModelReservation>,
}

impl ModelState {
    /// Whether `now` is so far behind the newest charge that it is accepted unchanged.
    pub(super) fn is_far_behind(&self, policy: &ModelPolicy, now: Micros) -> bool {
        self.newest_charge.is_some_and(|newest| newest - now > policy.longest_window() && newest - now > MINUTE)
    }

    /// The time that the store uses for `now`, if `now` is not far behind.
    pub(super) fn effective_time(&self, now: Micros) -> Micros {
        self.newest_charge.map_or(now, |newest| now.max(newest))
    }

    /// Accepts a `now` that is far behind: the units in use at the newest charge are in use now.
    pub(super) fn accept_far_behind(&mut self, policy: &ModelPolicy, now: Micros) {
        if !self.is_far_behind(policy, now) {
            return;
        }
        let (Some(newest), Some(stored)) = (self.newest_charge, &self.policy) else { return };
        for (history, limit) in self.histories.iter_mut().zip(&stored.limits) {
            history.move_to(stored.algorithm, *limit, newest, now);
        }
        self.shift_reservations(newest - now);
        self.newest_charge = Some(now);
    }

    /// This state in the shape of `policy`, as a request at `now` sees it. Nothing is written.
    pub(super) fn in_shape_of(&self, policy: &ModelPolicy, now: Micros) -> Cow<'_, Self> {
        match &self.policy {
            Some(stored) if stored.same_shape(policy) => Cow::Borrowed(self),
            _ => Cow::Owned(self.with_shape(policy, self.effective_time(now))),
        }
    }

    /// The units in use under limit `i` at `now`.
    pub(crate) fn used(&self, policy: &ModelPolicy, i: usize, now: Micros) -> Units {
        let state = self.in_shape_of(policy, now);
        let charged = state.histories[i].usage(policy.algorithm, policy.limits[i]).at(self.effective_time(now));
        charged + state.reserved(policy, i)
    }

    /// Charges every limit at the effective time, which becomes the time of the newest charge.
    pub(super) fn charge(&mut self, policy: &ModelPolicy, cost: Units, now: Micros) {
        let t = self.effective_time(now);
        let same_shape = self.policy.as_ref().is_some_and(|stored| stored.same_shape(policy));
        self.shape_change = self.shape_change.filter(|change| !same_shape || t <= change.end());
        *self = self.in_shape_of(policy, now).into_owned();
        self.policy = Some(policy.clone());
        self.newest_charge = Some(t);
        for (history, limit) in self.histories.iter_mut().zip(&policy.limits) {
            history.charge(*limit, cost, t);
        }
    }

    /// Gives units back to the moment they were charged. Returns whether there was anything to give back.
    pub(super) fn refund(&mut self, policy: &ModelPolicy, units: Units, charged_at: Micros, now: Micros) -> bool {
        self.accept_far_behind(policy, now);
        let t = self.effective_time(now);
        let Some(newest) = self.newest_charge.filter(|newest| charged_at <= *newest) else { return false };
        // Only a charge changes the shape of a state.
        let stored = match &self.policy {
            Some(stored) if !stored.same_shape(policy) => stored.clone(),
            _ => policy.clone(),
        };
        let mut returned = false;
        for (history, limit) in self.histories.iter_mut().zip(&stored.limits) {
            // The limits of a log share one history, so the longest window decides for all.
            let is_log = stored.algorithm == ModelAlgorithm::SlidingLog;
            let window = if is_log { stored.longest_window() } else { limit.window };
            let limit = ModelLimit { window, ..*limit };
            returned |= history.refund(stored.algorithm, limit, units, charged_at, newest, t);
        }
        returned
    }
}
