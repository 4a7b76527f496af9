//! [`StoredState`]: the state of one key under one policy, with its layout and the time of its newest charge.

use std::sync::Arc;

use crate::{
    algorithms::{Recording, Release},
    answer::{Moment, Outcome, answer, check_fit},
    decision::Decision,
    key_state::is_far_behind,
    layout::Layout,
    limit_states::{LimitStates, StateView},
    policy::Policy,
    reservation::{
        ReservationError,
        open::{Nonce, Reservation, Reservations},
    },
};

/// A state after the first charge.
#[derive(Debug, Clone)]
pub(crate) struct StoredState {
    pub(crate) newest: i64,
    pub(crate) layout: Arc<Layout>,
    pub(crate) states: LimitStates,
}

impl StoredState {
    pub(crate) fn empty(policy: &Policy, newest: i64) -> Self {
        let layout = Arc::clone(policy.layout());
        Self { newest, states: LimitStates::empty(&layout), layout }
    }

    /// Passes the state, as `policy` reads it, to `with`.
    pub(crate) fn read<R>(&self, policy: &Policy, with: impl FnOnce(StateView<'_>) -> R) -> R {
        with(self.states.convert(&self.layout, policy, self.newest).view(policy))
    }

    /// Charges `units` at `at`, and converts the state to the policy's layout. Without `room`, a log allocates nothing.
    pub(crate) fn charge(&mut self, policy: &Policy, units: u64, at: i64, room: bool) -> Recording {
        let recording = if self.layout.id() == policy.layout().id() {
            self.states.charge(&self.layout, self.newest, units, at, room)
        } else {
            let recording = self.states.migrate_and_charge(&self.layout, policy, self.newest, units, at, room);
            self.layout = Arc::clone(policy.layout());
            recording
        };
        self.newest = at;
        recording
    }

    /// Gives units back to `charged_at`. Returns whether any of them were in use at `at`.
    pub(crate) fn refund(&mut self, policy: &Policy, units: u64, charged_at: i64, at: i64) -> bool {
        if charged_at > self.newest {
            return false;
        }
        self.update_drain_rates(policy);
        self.states.refund(&self.layout, self.newest, units, charged_at, at)
    }

    /// Stores the drain rates of `policy`, if nothing else of its layout has changed.
    fn update_drain_rates(&mut self, policy: &Policy) {
        let states = self.states.unreserved_mut();
        if let Some(updated) = states.with_drain_rates(&self.layout, policy.layout()) {
            (*states, self.layout) = (updated, Arc::clone(policy.layout()));
        }
    }

    pub(crate) fn rebase_if_far_behind(&mut self, policy: &Policy, now: i64) {
        if is_far_behind(now, self.newest, policy.layout()) {
            self.states.rebase(&self.layout, self.newest, now);
            self.newest = now;
        }
    }

    /// Whether an operation at `now` changes the state even if it is denied.
    pub(crate) fn changes_when_read(&self, policy: &Policy, now: i64) -> bool {
        let ended = |open: &Reservations| open.first_end().is_some_and(|end| end <= now.max(self.newest));
        is_far_behind(now, self.newest, policy.layout()) || self.states.reservations().is_some_and(ended)
    }

    /// Reads the time of an operation: accepts a time that is far behind, and ends the reservations that end by then.
    /// Returns the time as the store reads it.
    pub(crate) fn advance(&mut self, policy: &Policy, now: i64) -> i64 {
        self.rebase_if_far_behind(policy, now);
        let at = now.max(self.newest);
        self.end_until(policy, at, true);
        at
    }

    /// The units in use, as the decision of an operation that charges nothing.
    pub(crate) fn in_use(&self, policy: &Policy, moment: Moment) -> Decision {
        self.read(policy, |view| {
            let check = check_fit(view, moment.at, 1);
            answer(policy.limits(), view, moment, 1, &check, Outcome::NotCharged)
        })
    }

    /// Ends all reservations that end by `at`.
    pub(crate) fn end_until(&mut self, policy: &Policy, at: i64, room: bool) {
        let Some(open) = self.states.reservations_mut() else { return };
        let Some(first) = open.take_ended(at) else { return };
        // Most often one reservation has ended.
        if open.first_end().is_none_or(|end| end > at) {
            self.end(policy, &first, room);
        } else {
            let ended: Vec<_> = std::iter::once(first).chain(std::iter::from_fn(|| open.take_ended(at))).collect();
            self.end_all(policy, &ended, room);
        }
        self.states.drop_reservations_if_none();
    }

    /// Gives back or charges the units of reservations, in the order of their ends. Holds between two leases give their
    /// units back together.
    pub(crate) fn end_all<'a>(
        &mut self,
        policy: &Policy,
        ended: impl IntoIterator<Item = &'a Reservation>,
        room: bool,
    ) {
        let mut releases = Vec::new();
        for ended in ended {
            if ended.is_lease() {
                self.release_all(policy, &releases);
                releases.clear();
                self.end(policy, ended, room);
            }
            releases.extend(ended.release());
        }
        self.release_all(policy, &releases);
    }

    /// Gives back or charges the units of a reservation at its end.
    fn end(&mut self, policy: &Policy, ended: &Reservation, room: bool) {
        if ended.is_lease() {
            self.charge(policy, ended.units, ended.until, room);
        } else if let Some(Release { units, granted_at, until }) = ended.release() {
            self.refund(policy, units, granted_at, until);
        }
    }

    /// Gives back the units of ended holds.
    fn release_all(&mut self, policy: &Policy, releases: &[Release]) {
        if !releases.is_empty() {
            self.update_drain_rates(policy);
            self.states.release_all(&self.layout, self.newest, releases);
        }
    }

    /// Closes an open hold whose work took `actual` units. Returns whether it was open.
    pub(crate) fn commit(&mut self, policy: &Policy, nonce: Nonce, actual: u64, at: i64, room: bool) -> bool {
        let Some(hold) = self.states.reservations_mut().and_then(|open| open.take(nonce, false)) else { return false };
        self.states.drop_reservations_if_none();
        if actual > hold.units {
            self.charge(policy, actual - hold.units, at, room);
        } else if actual < hold.units && hold.gives_back {
            self.refund(policy, hold.units - actual, hold.granted_at, at);
        }
        true
    }

    /// Closes an open lease of which `spent` units were spent. Returns whether it was open.
    pub(crate) fn settle(
        &mut self,
        policy: &Policy,
        nonce: Nonce,
        spent: u64,
        at: i64,
        room: bool,
    ) -> Result<bool, ReservationError> {
        let Some(open) = self.states.reservations_mut() else { return Ok(false) };
        match open.find(nonce, true) {
            None => return Ok(false),
            Some((_, lease)) if spent > lease.units => {
                return Err(ReservationError::SpentTooMuch { spent, units: lease.units });
            }
            Some(_) => {}
        }
        open.take(nonce, true);
        self.states.drop_reservations_if_none();
        if spent > 0 {
            self.charge(policy, spent, at, room);
        }
        Ok(true)
    }

    /// Sets the end of an open hold. Returns whether it was open.
    pub(crate) fn renew(&mut self, nonce: Nonce, until: i64) -> bool {
        self.states.reservations_mut().is_some_and(|open| open.renew(nonce, until))
    }
}
