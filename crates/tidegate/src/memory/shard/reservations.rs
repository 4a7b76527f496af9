//! Operations on the reservations of a shard's keys.

use std::sync::Arc;

use super::{
    Address, KeyRequest, LOG_GROWTH, Shard,
    check::{CheckedRequest, SavedState, StateLocation},
    overridden::stored_by,
};
use crate::{
    answer::{Fit, Outcome},
    decision::Decision,
    memory::bounds::Bounds,
    op::Op,
    overrides::OverrideRule,
    policy::Policy,
    reservation::{
        Lease, ReservationError,
        open::{AllParts, Grant, Nonce, Reservations},
    },
    reserved_states::ReservedStates,
    stored_state::StoredState,
};

/// An operation on an open reservation.
#[derive(Debug, Clone, Copy)]
pub(in crate::memory) enum Change {
    /// Closes a hold whose work took this number of units.
    Commit(u64),
    /// Sets the end of a hold to this time from now.
    Renew(i64),
    /// Closes a lease of which this number of units was spent.
    Settle(u64),
}

impl Change {
    /// Applies the change at `at`. Returns whether the reservation was open.
    fn apply(
        self,
        stored: &mut StoredState,
        policy: &Policy,
        nonce: Nonce,
        at: i64,
        room: bool,
    ) -> Result<bool, ReservationError> {
        match self {
            Self::Commit(actual) => Ok(stored.commit(policy, nonce, actual, at, room)),
            Self::Renew(ttl) => Ok(stored.renew(nonce, at + ttl)),
            Self::Settle(spent) => stored.settle(policy, nonce, spent, at, room),
        }
    }
}

/// The requests of an open hold.
#[derive(Debug, Clone)]
pub(in crate::memory) enum Parts {
    One,
    Several(AllParts),
}

impl Shard {
    /// The open reservations of a state.
    #[inline]
    pub(super) fn reservations_at(&self, address: Address) -> Option<&Reservations> {
        self.large_states.get(self.slot(address).large_state()?).reservations()
    }

    /// Ends the reservations that end by `at`. Returns the state before that, if `peek` is set.
    #[cold]
    pub(super) fn end_reservations(
        &mut self,
        address: Address,
        policy: &Policy,
        at: i64,
        bounds: &Bounds,
        peek: bool,
    ) -> Option<Box<SavedState>> {
        let room = self.has_room_to_charge(bounds);
        self.change_stored(address, bounds, |stored| {
            let StoredState { newest, layout, states } = &*stored;
            let saved = || SavedState { newest: *newest, layout: Arc::clone(layout), states: states.clone() };
            let before = peek.then(|| Box::new(saved()));
            stored.end_until(policy, at, room);
            before
        })
    }

    /// Records the reservation of a request that was just charged.
    #[inline]
    pub(super) fn record_reservation(
        &mut self,
        address: Address,
        units: u64,
        at: i64,
        grant: Option<&Grant>,
        bounds: &Bounds,
    ) {
        if let Some(grant) = grant {
            self.change(address, bounds, |states| states.reserve(grant.clone().at(units, at)));
        }
    }

    /// Reserves the units of a request. The reservation is open if the decision has a time of a charge.
    pub(in crate::memory) fn reserve(&mut self, request: &KeyRequest<'_>, grant: &Grant, bounds: &Bounds) -> Decision {
        if let (Some((answer, moment)), Some(one_limit)) =
            (self.reserve_one_limit(request, grant, bounds), request.policy.one_limit())
        {
            self.count(Op::Check, true);
            return answer.decision(one_limit, moment);
        }
        self.evict_for_reservation(request, bounds);
        let checked = self.check_reservation(request, grant, bounds);
        let outcome = Outcome::new(Op::Check, checked.fits());
        let decision = self.commit(request, checked, outcome, Some(grant), bounds);
        self.count(Op::Check, decision.is_allowed());
        decision
    }

    /// Evicts some expired states if there is no room for another reservation of the key.
    pub(in crate::memory) fn evict_for_reservation(&mut self, request: &KeyRequest<'_>, bounds: &Bounds) {
        self.evict_for(request, Op::Check, bounds);
        let own = self.keys.find(request.id).map(|at| self.reservations_at(Address::key(at)));
        let growth = own.map(|open| LOG_GROWTH + open.map_or(0, Reservations::bytes_to_insert));
        if growth.is_some_and(|growth| !bounds.has_room(growth)) {
            self.sweep_for_room(request.now, Op::Check, bounds);
        }
    }

    /// Checks whether the cost fits, whether the key can have another reservation, and whether there is room to record it.
    pub(in crate::memory) fn check_reservation(
        &mut self,
        request: &KeyRequest<'_>,
        grant: &Grant,
        bounds: &Bounds,
    ) -> CheckedRequest {
        let mut checked = self.check(request, bounds, false);
        let open = self.address_of(request, &checked).and_then(|address| self.reservations_at(address));
        checked.check.limit_reservations(open, request.policy.reservation_bounds().max_reservations());
        let first = || size_of::<ReservedStates>() + Reservations::BYTES_OF_FIRST + self.large_states.bytes_to_put();
        let growth = open.map_or_else(first, Reservations::bytes_to_insert) + grant.parts_bytes();
        let has_room = match checked.location {
            StateLocation::Own(_) | StateLocation::New => bounds.has_room(growth),
            StateLocation::Overflow(_) => bounds.has_overflow_room(growth),
            StateLocation::Overridden => self.is_exempt(request) || bounds.has_room(growth),
            StateLocation::Uncounted | StateLocation::Refused => true,
        };
        if checked.fits() && !has_room {
            if checked.location == StateLocation::New {
                bounds.give_back_key();
            }
            // A reservation that is not recorded could not be settled, so it is never admitted.
            checked.location = StateLocation::Refused;
            self.counters.refused += 1;
        }
        checked
    }

    fn is_exempt(&self, request: &KeyRequest<'_>) -> bool {
        self.override_of(request.id).is_some_and(|active| matches!(active.rule(), OverrideRule::Exempt))
    }

    /// Settles an earlier lease, whose nonce and spent units are in `settle`. Then sets units aside for a node. Returns the
    /// decision, the granted units, and whether the earlier lease was open.
    pub(in crate::memory) fn lease(
        &mut self,
        request: &KeyRequest<'_>,
        lease: &Lease,
        settle: Option<(Nonce, u64)>,
        grant: &Grant,
        bounds: &Bounds,
    ) -> Result<(Decision, u64, Option<bool>), ReservationError> {
        let settled = match settle {
            Some((nonce, spent)) => Some(self.change_reservation(request, nonce, Change::Settle(spent), bounds)?.1),
            None => None,
        };
        self.evict_for_reservation(request, bounds);
        let checked = self.check_reservation(request, grant, bounds);
        let granted = if checked.fits() { self.units_to_lease(request, &checked, lease) } else { 0 };
        let outcome = Outcome::new(Op::Check, checked.fits());
        let request = KeyRequest { cost: granted.max(request.cost), ..*request };
        let mut decision = self.commit(&request, checked, outcome, Some(grant), bounds);
        decision.charged_at = None;
        self.count(Op::Check, decision.is_allowed());
        Ok((decision, granted, settled))
    }

    fn units_to_lease(&self, request: &KeyRequest<'_>, checked: &CheckedRequest, lease: &Lease) -> u64 {
        let open = self.address_of(request, checked).and_then(|address| self.reservations_at(address));
        let leases = open.map_or(0, Reservations::leases);
        match self.override_of(request.id).map(|active| active.rule()) {
            Some(OverrideRule::Limits(limits)) => lease.granted(limits, &checked.check, leases),
            Some(OverrideRule::Exempt) => lease.asked.get(),
            _ => lease.granted(request.policy, &checked.check, leases),
        }
    }

    /// Changes an open reservation of a key. Returns the units in use after that, and whether the reservation was open.
    pub(in crate::memory) fn change_reservation(
        &mut self,
        request: &KeyRequest<'_>,
        nonce: Nonce,
        change: Change,
        bounds: &Bounds,
    ) -> Result<(Decision, bool), ReservationError> {
        let request = KeyRequest { cost: 1, ..*request };
        let active = self.active_override(&request, bounds);
        let stored = active.as_ref().map_or(request, |active| stored_by(&request, active));
        let room = self.has_room_to_charge(bounds);
        let mut known = false;
        for address in self.addresses_of(&request, bounds).into_iter().flatten() {
            let at = self.check_at(address, StateLocation::Own(address.index), &stored, bounds, false).at;
            if self.reservations_at(address).is_some() {
                known =
                    self.change_stored(address, bounds, |state| change.apply(state, stored.policy, nonce, at, room))?;
            }
            if known {
                break;
            }
        }
        let mut checked = self.check(&request, bounds, true);
        if checked.check.fit == Fit::Banned {
            checked.check.fit = Fit::Fits;
        }
        Ok((self.commit(&request, checked, Outcome::NotCharged, None, bounds), known))
    }

    /// The requests of a hold. `None` if the hold is not open.
    pub(in crate::memory) fn parts_of(&self, request: &KeyRequest<'_>, nonce: Nonce, bounds: &Bounds) -> Option<Parts> {
        let addresses = self.addresses_of(request, bounds).into_iter().flatten();
        let mut open = addresses.filter_map(|address| self.reservations_at(address));
        let (_, hold) = open.find_map(|open| open.find(nonce, false))?;
        Some(hold.parts.clone().map_or(Parts::One, Parts::Several))
    }

    /// Whether a lease is open.
    pub(in crate::memory) fn has_lease(&self, request: &KeyRequest<'_>, nonce: Nonce, bounds: &Bounds) -> bool {
        let addresses = self.addresses_of(request, bounds).into_iter().flatten();
        let mut open = addresses.filter_map(|address| self.reservations_at(address));
        open.any(|open| open.find(nonce, true).is_some())
    }

    /// The states that can have reservations of a key: its own, and those that it shares while it has none.
    fn addresses_of(&self, request: &KeyRequest<'_>, bounds: &Bounds) -> [Option<Address>; 3] {
        let own = self.keys.find(request.id).map(Address::key).or_else(|| self.overridden_state(request.id));
        let [fine, coarse] = self.overflow_states(request, bounds);
        [own, fine, coarse]
    }

    /// The state that a checked request is charged to, if it exists.
    fn address_of(&self, request: &KeyRequest<'_>, checked: &CheckedRequest) -> Option<Address> {
        match checked.location {
            StateLocation::Own(_) => self.keys.find(request.id).map(Address::key),
            StateLocation::Overridden => self.overridden_state(request.id),
            StateLocation::Overflow(id) => self.overflow.find(id).map(Address::overflow),
            StateLocation::New | StateLocation::Uncounted | StateLocation::Refused => None,
        }
    }
}
