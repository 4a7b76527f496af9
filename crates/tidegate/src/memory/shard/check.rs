//! The first step of a decision: finds the state of a key and checks whether the cost fits.

use std::sync::Arc;

use super::{Address, KeyRequest, Shard};
use crate::{
    answer::{Fit, FitCheck, Moment, check_fit},
    key_state::is_far_behind,
    layout::Layout,
    limit_states::LimitStates,
    memory::{
        bounds::{AtCapacity, Bounds},
        id::Id,
    },
};

/// The result of the first step of a decision.
pub(in crate::memory) struct CheckedRequest {
    pub(super) location: StateLocation,
    /// The time of the request, or of the newest charge if that is later.
    pub(super) at: i64,
    pub(super) check: FitCheck,
    /// Units that earlier requests of the decision spend in the same overflow state.
    pub(super) earlier: u64,
    /// The state that a peek must restore.
    pub(super) before: Option<Box<SavedState>>,
}

/// A state before the check changed it.
pub(super) struct SavedState {
    pub(super) newest: i64,
    pub(super) layout: Arc<Layout>,
    pub(super) states: LimitStates,
}

/// The location of a key's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateLocation {
    /// In this slot of the keys.
    Own(usize),
    /// The key has no state yet. There is room for one.
    New,
    /// In the overflow state with this id, which other keys without room share.
    Overflow(Id),
    /// There is no room for a state. The request is admitted uncounted.
    Uncounted,
    /// There is no room for a state. The request is denied.
    Refused,
    /// With the keys that have an override, if the key has a state.
    Overridden,
}

impl CheckedRequest {
    /// The result for a key under whose limits no units are in use.
    pub(super) fn of_unused(request: &KeyRequest<'_>, location: StateLocation) -> Self {
        let check = FitCheck::of_unused(request.policy.specs(), request.cost);
        Self { location, at: request.now, check, earlier: 0, before: None }
    }

    /// The time at which the request is decided.
    pub(super) fn moment(&self, request: &KeyRequest<'_>) -> Moment {
        Moment { now: request.now, at: self.at }
    }

    pub(in crate::memory) fn fits(&self) -> bool {
        self.check.fit == Fit::Fits && self.location != StateLocation::Refused
    }

    /// Whether the request is denied because no state can count it.
    pub(in crate::memory) fn is_refused(&self) -> bool {
        self.location == StateLocation::Refused
    }

    /// Whether both requests, which are in the same shard, use the same overflow state.
    pub(in crate::memory) fn shares_state_with(&self, other: &Self) -> bool {
        matches!(self.location, StateLocation::Overflow(_)) && self.location == other.location
    }

    /// Checks the cost together with the units that earlier requests of the decision spend in the same overflow state.
    pub(in crate::memory) fn add_earlier(&mut self, request: &KeyRequest<'_>, units: u64) {
        self.earlier = units;
        self.check.recheck(request.policy.specs(), request.cost + units);
    }
}

impl Shard {
    /// Checks whether the cost fits. Changes a state only if reservations have ended or the clock went far back, and a peek
    /// restores it afterwards.
    pub(in crate::memory) fn check(&mut self, request: &KeyRequest<'_>, bounds: &Bounds, peek: bool) -> CheckedRequest {
        if let Some(at) = self.keys.find(request.id) {
            if self.lacks_layout(at, request, bounds) {
                return self.check_refused_layout(request, bounds, peek);
            }
            return self.check_at(Address::key(at), StateLocation::Own(at), request, bounds, peek);
        }
        match self.override_of(request.id).map(Arc::clone) {
            Some(active) => self.check_overridden(request, &active, bounds, peek),
            None => self.check_new_key(request, bounds, peek),
        }
    }

    pub(super) fn check_at(
        &mut self,
        address: Address,
        location: StateLocation,
        request: &KeyRequest<'_>,
        bounds: &Bounds,
        peek: bool,
    ) -> CheckedRequest {
        let newest = self.newest(address);
        let (at, mut before) = if is_far_behind(request.now, newest, request.policy.layout()) {
            (request.now, self.rebase(address, request.now, bounds, peek))
        } else {
            (request.now.max(newest), None)
        };
        let mut has_ends = false;
        let mut check = self.read(address, request.policy, |view| {
            has_ends = view.forecast.is_some_and(|forecast| forecast.reservations.first_end_or_max() <= at);
            check_fit(view, at, request.cost)
        });
        if has_ends {
            let ended = self.end_reservations(address, request.policy, at, bounds, peek);
            before = before.or(ended);
            check = self.read(address, request.policy, |view| check_fit(view, at, request.cost));
        }
        CheckedRequest { location, at, check, earlier: 0, before }
    }

    #[cold]
    fn check_new_key(&mut self, request: &KeyRequest<'_>, bounds: &Bounds, peek: bool) -> CheckedRequest {
        let location = if let Some(id) = self.overflow_with_reservations(request, bounds) {
            self.count_refused(request, bounds, peek);
            StateLocation::Overflow(id)
        } else if self.reserve_key(request.policy.layout(), bounds) {
            StateLocation::New
        } else {
            self.count_refused(request, bounds, peek);
            match bounds.at_capacity {
                AtCapacity::Shared => {
                    self.reserve_overflow(request, bounds).map_or(StateLocation::Refused, StateLocation::Overflow)
                }
                AtCapacity::Admit => StateLocation::Uncounted,
                AtCapacity::Deny => StateLocation::Refused,
            }
        };
        // A new key starts with the units in use in its overflow state, so that units it spent there still count.
        match (location, self.overflow_state(request, bounds)) {
            (StateLocation::New | StateLocation::Overflow(_), Some(address)) => {
                let mut checked = self.check_at(address, location, request, bounds, peek);
                if location != StateLocation::Overflow(self.slot(address).id) {
                    self.restore(address, checked.before.take(), bounds);
                }
                checked
            }
            _ => CheckedRequest::of_unused(request, location),
        }
    }

    /// Checks a request for a key whose state would need one layout more than callers may supply.
    #[cold]
    fn check_refused_layout(&mut self, request: &KeyRequest<'_>, bounds: &Bounds, peek: bool) -> CheckedRequest {
        self.count_refused(request, bounds, peek);
        let admits = bounds.at_capacity == AtCapacity::Admit;
        let location = if admits { StateLocation::Uncounted } else { StateLocation::Refused };
        CheckedRequest::of_unused(request, location)
    }

    fn count_refused(&mut self, request: &KeyRequest<'_>, bounds: &Bounds, peek: bool) {
        if !peek {
            self.counters.refused += 1;
            self.counters.refused_layouts += u64::from(!self.allows_layout(request.policy.layout(), bounds));
        }
    }
}
