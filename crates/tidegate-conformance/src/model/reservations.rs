//! Reservations: holds, leases and limits on the units in flight.

use tidegate::{Op, Reason};

use super::decision::{decision, reason};
use super::{Micros, Model, ModelDecision, ModelDecisions, ModelPolicy, ModelRequest, ModelState, Units};

/// What a reservation is, and what happens at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelReservationKind {
    /// A hold that gives its units back when nobody commits it.
    ReleasedHold,
    /// A hold that keeps its units when nobody commits it.
    SpentHold,
    /// A lease. It is charged at its end.
    Lease,
}

/// Units that are set aside on a key until a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelReservation {
    id: u64,
    kind: ModelReservationKind,
    units: Units,
    granted_at: Micros,
    until: Micros,
    /// Whether unused units of a hold go back. They do not after the clock went far back.
    gives_back: bool,
}

impl ModelReservation {
    fn is_lease(&self) -> bool {
        self.kind == ModelReservationKind::Lease
    }
}

/// A reservation that a request asks for.
#[derive(Clone, Copy, Debug)]
pub struct ModelHold {
    /// The id of the new hold.
    pub id: u64,
    /// The time from the grant to the end.
    pub ttl: Micros,
    /// `ReleasedHold` or `SpentHold`.
    pub kind: ModelReservationKind,
}

/// A lease that a node asks for.
#[derive(Clone, Copy, Debug)]
pub struct ModelLease {
    /// The id of the new lease.
    pub id: u64,
    /// The greatest number of units to grant.
    pub asked: Units,
    /// The least number of units to grant.
    pub least: Units,
    /// The time from the grant to the end.
    pub ttl: Micros,
    /// The lease to settle first, and the units that were spent of it.
    pub settle: Option<(u64, Units)>,
}

/// The answer to a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelGrant {
    /// The decision about the new lease.
    pub decision: ModelDecision,
    /// The units that were granted; 0 if none were.
    pub granted: Units,
    /// Whether the lease to settle was open.
    pub settled: Option<bool>,
}

impl ModelState {
    /// The units in use under limit `i` that reservations set aside, without those that were charged at their grant.
    pub(super) fn reserved(&self, policy: &ModelPolicy, i: usize) -> Units {
        let counts_leases = !policy.limits[i].is_in_flight();
        self.reservations.iter().filter(|open| open.is_lease() == counts_leases).map(|open| open.units).sum()
    }

    /// This state after the reservations that end by `now` have ended.
    pub(crate) fn after_ends(&self, policy: &ModelPolicy, now: Micros) -> Self {
        let mut state = self.clone();
        state.end_reservations(policy, now);
        state
    }

    /// Whether some reservation is open.
    pub(crate) fn has_reservations(&self) -> bool {
        !self.reservations.is_empty()
    }

    /// The ends of the open reservations.
    pub(crate) fn ends(&self) -> Vec<Micros> {
        self.reservations.iter().map(|open| open.until).collect()
    }

    /// Ends the reservations whose time has come, in the order of their ends, then in the order of their grants.
    pub(super) fn end_reservations(&mut self, policy: &ModelPolicy, now: Micros) {
        let now = self.effective_time(now);
        self.reservations.sort_by_key(|open| (open.until, open.id));
        while let Some(first) = self.reservations.first().copied().filter(|first| first.until <= now) {
            self.reservations.remove(0);
            match first.kind {
                ModelReservationKind::Lease => self.charge(policy, first.units, first.until),
                ModelReservationKind::ReleasedHold if first.gives_back => {
                    self.refund(policy, first.units, first.granted_at, first.until);
                }
                ModelReservationKind::ReleasedHold | ModelReservationKind::SpentHold => {}
            }
        }
    }

    /// Records a hold that was charged at the newest charge.
    pub(super) fn record_hold(&mut self, hold: &ModelHold, units: Units) {
        let granted_at = self.newest_charge.expect("a hold is charged at its grant");
        let until = granted_at + hold.ttl;
        let ModelHold { id, kind, .. } = *hold;
        self.reservations.push(ModelReservation { id, kind, units, granted_at, until, gives_back: true });
    }

    /// Removes an open hold or an open lease.
    fn close(&mut self, id: u64, is_lease: bool) -> Option<ModelReservation> {
        let wanted = |open: &ModelReservation| open.id == id && open.is_lease() == is_lease;
        self.reservations.iter().position(wanted).map(|i| self.reservations.remove(i))
    }

    fn settle(&mut self, policy: &ModelPolicy, id: u64, spent: Units, now: Micros) -> bool {
        let known = self.close(id, true).is_some();
        if known && spent > 0 {
            self.charge(policy, spent, now);
        }
        known
    }

    /// Moves the ends by the step that a clock went far back.
    pub(super) fn shift_reservations(&mut self, step: Micros) {
        for open in &mut self.reservations {
            open.until -= step;
            open.granted_at -= step;
            open.gives_back = false;
        }
    }
}

impl Model {
    /// Sets the cost of a request aside. The hold is open if the decision has a `charged_at`.
    pub fn reserve(&mut self, request: &ModelRequest, hold: ModelHold, now: Micros) -> ModelDecision {
        self.decide_and_hold(Op::Check, std::slice::from_ref(request), Some(hold), now).overall
    }

    /// Sets the costs of several requests aside: all of them or none.
    pub fn reserve_all(&mut self, requests: &[ModelRequest], hold: ModelHold, now: Micros) -> ModelDecisions {
        self.decide_and_hold(Op::Check, requests, Some(hold), now)
    }

    /// Closes a hold whose work took `actual` units. Returns whether it was open.
    pub fn commit(&mut self, request: &ModelRequest, id: u64, actual: Units, now: Micros) -> (ModelDecision, bool) {
        self.change(request, now, |state, policy| {
            let Some(hold) = state.close(id, false) else { return false };
            if actual > hold.units {
                state.charge(policy, actual - hold.units, now);
            } else if hold.gives_back {
                state.refund(policy, hold.units - actual, hold.granted_at, now);
            }
            true
        })
    }

    /// Sets the end of an open hold. Returns whether it was open.
    pub fn renew(&mut self, request: &ModelRequest, id: u64, ttl: Micros, now: Micros) -> (ModelDecision, bool) {
        self.change(request, now, |state, _| {
            let until = state.effective_time(now) + ttl;
            let hold = state.reservations.iter_mut().find(|open| open.id == id && !open.is_lease());
            hold.map(|hold| hold.until = until).is_some()
        })
    }

    /// Closes a lease of which `spent` units were spent. Returns whether it was open.
    pub fn settle(&mut self, request: &ModelRequest, id: u64, spent: Units, now: Micros) -> (ModelDecision, bool) {
        self.change(request, now, |state, policy| state.settle(policy, id, spent, now))
    }

    /// Settles a lease, and sets units aside for a node.
    ///
    /// # Panics
    /// If the policy has no limit.
    pub fn lease(&mut self, request: &ModelRequest, lease: ModelLease, now: Micros) -> ModelGrant {
        let policy = self.effective_policy(request, now);
        let overridden = self.active_override(request, now).is_some();
        let (mut state, settled) = self.settled(request, lease.settle, now);
        let mut limits = self.limit_states(request, &state, lease.least, now);
        let reason = reason(&limits);
        let mut granted = 0;
        if reason == Reason::Allowed && self.is_exempt(request, now) {
            granted = lease.asked;
        } else if reason == Reason::Allowed {
            let free = limits.iter().map(|limit| limit.remaining).min().expect("a policy has a limit");
            let open = Units::try_from(state.reservations.iter().filter(|open| open.is_lease()).count());
            let parts = 2 * (open.expect("a number of leases") + 1);
            granted = lease.asked.min((free + parts - 1) / parts).max(lease.least);
            // A grant moves the time of the newest charge.
            state.charge(&policy, 0, now);
            let hold = ModelHold { id: lease.id, ttl: lease.ttl, kind: ModelReservationKind::Lease };
            state.record_hold(&hold, granted);
            limits = state.limit_states(&policy, lease.least, now);
        }
        self.set_state(request, state);
        let decision = ModelDecision { overridden, ..decision(reason, &limits, None) };
        ModelGrant { decision, granted, settled }
    }

    /// The state after the lease to settle is settled, and whether that was open. Without one, the reservations of an
    /// exempt key do not end yet.
    fn settled(&self, request: &ModelRequest, settle: Option<(u64, Units)>, now: Micros) -> (ModelState, Option<bool>) {
        let Some((id, spent)) = settle else { return (self.state_at(request, now), None) };
        let policy = self.effective_policy(request, now);
        let mut state = self.state(request.id);
        state.accept_far_behind(&policy, now);
        state.end_reservations(&policy, now);
        let known = state.settle(&policy, id, spent, now);
        (state, Some(known))
    }

    /// Changes the state of a key after the ends up to `now`. Returns the state of its limits as a decision.
    fn change(
        &mut self,
        request: &ModelRequest,
        now: Micros,
        change: impl FnOnce(&mut ModelState, &ModelPolicy) -> bool,
    ) -> (ModelDecision, bool) {
        let policy = self.effective_policy(request, now);
        let overridden = self.active_override(request, now).is_some();
        let mut state = self.state(request.id);
        state.accept_far_behind(&policy, now);
        state.end_reservations(&policy, now);
        let known = change(&mut state, &policy);
        let counted = if self.is_exempt(request, now) { ModelState::default() } else { state.clone() };
        let limits = self.limit_states_after_charge(request, &counted, 1, now);
        self.set_state(request, state);
        (ModelDecision { overridden, ..decision(Reason::Allowed, &limits, None) }, known)
    }
}
