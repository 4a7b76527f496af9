//! The second step of a decision: charges a checked request if the whole decision allows that, and answers.

use super::{
    Address, KeyRequest, Shard, TableId,
    check::{CheckedRequest, StateLocation},
};
use crate::{
    algorithms::Recording,
    answer::{Outcome, answer, in_mode},
    decision::{Decision, Reason},
    limit_states::{LimitStates, StateView},
    memory::bounds::Bounds,
    reservation::open::{Grant, Kind},
};

impl Shard {
    /// Charges the request if the outcome is [`Outcome::Charged`], records the reservation that it requests, and answers.
    pub(in crate::memory) fn commit(
        &mut self,
        request: &KeyRequest<'_>,
        mut checked: CheckedRequest,
        outcome: Outcome,
        grant: Option<&Grant>,
        bounds: &Bounds,
    ) -> Decision {
        let mut decision = match checked.location {
            StateLocation::Own(at) => {
                // Another request of the decision may have moved the slot.
                let unmoved = self.keys.slot_count() > at && self.keys.slot(at).id == request.id;
                match if unmoved { Some(at) } else { self.keys.find(request.id) } {
                    Some(at) => self.commit_at(Address::key(at), request, &mut checked, outcome, grant, bounds),
                    None => refused(request, &checked, outcome),
                }
            }
            StateLocation::Overridden => self.commit_overridden(request, &mut checked, outcome, grant, bounds),
            StateLocation::New => self.commit_new_key(request, &checked, outcome, grant, bounds),
            _ => self.commit_at_capacity(request, &mut checked, outcome, grant, bounds),
        };
        checked.check.wait_for_reservation(&mut decision, request.now);
        in_mode(decision, request.policy.mode())
    }

    /// Charges and answers a key with the state at `address`.
    fn commit_at(
        &mut self,
        address: Address,
        request: &KeyRequest<'_>,
        checked: &mut CheckedRequest,
        outcome: Outcome,
        grant: Option<&Grant>,
        bounds: &Bounds,
    ) -> Decision {
        let mut recording = Recording::Exact;
        if outcome == Outcome::Charged {
            recording = self.charge(address, &charged(request, grant), checked.at, bounds);
            self.record_reservation(address, request.cost, checked.at, grant, bounds);
        }
        let mut decision = self.answer_at(address, request, checked, outcome);
        decision.degraded = recording == Recording::Joined;
        self.restore(address, checked.before.take(), bounds);
        decision
    }

    /// Answers a key without a state, and stores one if the request is charged. Its place is reserved already.
    #[cold]
    fn commit_new_key(
        &mut self,
        request: &KeyRequest<'_>,
        checked: &CheckedRequest,
        outcome: Outcome,
        grant: Option<&Grant>,
        bounds: &Bounds,
    ) -> Decision {
        if outcome != Outcome::Charged {
            bounds.give_back_key();
            return self.answer_unstored(request, checked, outcome, bounds);
        }
        let states = charged_states(&charged(request, grant), checked);
        let address = self.insert(TableId::Keys, request.id, request.policy, states, checked.at, bounds);
        self.record_reservation(address, request.cost, checked.at, grant, bounds);
        self.answer_at(address, request, checked, outcome)
    }

    /// Charges and answers a key for which there is no room.
    #[cold]
    fn commit_at_capacity(
        &mut self,
        request: &KeyRequest<'_>,
        checked: &mut CheckedRequest,
        outcome: Outcome,
        grant: Option<&Grant>,
        bounds: &Bounds,
    ) -> Decision {
        let mut decision = match checked.location {
            StateLocation::Overflow(id) => match (self.overflow.find(id), outcome) {
                (Some(index), _) => {
                    // An earlier request of the decision may have charged the state.
                    let address = Address::overflow(index);
                    checked.at = checked.at.max(self.newest(address));
                    self.commit_at(address, request, checked, outcome, grant, bounds)
                }
                (None, Outcome::Charged) => {
                    let states = charged_states(&charged(request, grant), checked);
                    let address = self.insert(TableId::Overflow, id, request.policy, states, checked.at, bounds);
                    bounds.count_overflow();
                    self.record_reservation(address, request.cost, checked.at, grant, bounds);
                    self.answer_at(address, request, checked, outcome)
                }
                (None, _) => self.answer_unstored(request, checked, outcome, bounds),
            },
            StateLocation::Uncounted => {
                let outcome = if outcome == Outcome::Charged { Outcome::NotCharged } else { outcome };
                answer_uncharged(request, checked, outcome)
            }
            _ => refused(request, checked, outcome),
        };
        let fits_alone = || request.policy.specs().iter().all(|spec| request.cost <= spec.capacity);
        if checked.earlier > 0 && decision.reason == Reason::Impossible && fits_alone() {
            // The requests would fit if there were room for a state for each.
            decision.reason = Reason::StoreUnavailable;
            decision.remaining = 0;
        }
        decision.degraded = true;
        decision
    }

    #[inline]
    fn answer_at(
        &self,
        address: Address,
        request: &KeyRequest<'_>,
        checked: &CheckedRequest,
        outcome: Outcome,
    ) -> Decision {
        self.read(address, request.policy, |view| answer_from(view, request, checked, outcome))
    }

    /// Answers a key that gets no state. It writes nothing, so an overflow state of the key does not change.
    fn answer_unstored(
        &self,
        request: &KeyRequest<'_>,
        checked: &CheckedRequest,
        outcome: Outcome,
        bounds: &Bounds,
    ) -> Decision {
        match self.overflow_state(request, bounds) {
            Some(address) if self.newest(address) <= checked.at => {
                let mut decision = self.answer_at(address, request, checked, outcome);
                decision.degraded = decision.used > 0;
                decision
            }
            _ => answer_uncharged(request, checked, outcome),
        }
    }
}

pub(super) fn answer_from(
    view: StateView<'_>,
    request: &KeyRequest<'_>,
    checked: &CheckedRequest,
    outcome: Outcome,
) -> Decision {
    let (limits, cost) = (request.policy.limits(), request.cost + checked.earlier);
    answer(limits, view, checked.moment(request), cost, &checked.check, outcome)
}

/// The request as it is charged: a lease is charged at its end.
pub(super) fn charged<'a>(request: &KeyRequest<'a>, grant: Option<&Grant>) -> KeyRequest<'a> {
    let is_lease = grant.is_some_and(|grant| grant.kind == Kind::Lease);
    KeyRequest { cost: if is_lease { 0 } else { request.cost }, ..*request }
}

/// The states of a new key after the charge, including the units in use in its overflow state.
pub(super) fn charged_states(request: &KeyRequest<'_>, checked: &CheckedRequest) -> LimitStates {
    let (policy, at) = (request.policy, checked.at);
    let mut states = if checked.check.used.iter().all(|used| *used == 0) {
        LimitStates::empty(policy.layout())
    } else {
        LimitStates::with_used(policy, &checked.check.used, at)
    };
    let _ = states.charge(policy.layout(), at, request.cost, at, true);
    states
}

fn answer_uncharged(request: &KeyRequest<'_>, checked: &CheckedRequest, outcome: Outcome) -> Decision {
    let states = LimitStates::with_used(request.policy, &checked.check.used, checked.at);
    answer_for(&states, request, checked, outcome)
}

fn answer_for(states: &LimitStates, request: &KeyRequest<'_>, checked: &CheckedRequest, outcome: Outcome) -> Decision {
    let converted = states.convert(request.policy.layout(), request.policy, checked.at);
    answer_from(converted.view(request.policy), request, checked, outcome)
}

/// The answer if there is no room for a key and it has no overflow state. A charge that cannot be counted is denied, too.
#[cold]
fn refused(request: &KeyRequest<'_>, checked: &CheckedRequest, outcome: Outcome) -> Decision {
    let counted = if outcome == Outcome::Charged { Outcome::Denied } else { outcome };
    let mut decision = answer_for(&LimitStates::empty(request.policy.layout()), request, checked, counted);
    if counted == Outcome::Denied && (outcome == Outcome::Charged || decision.reason == Reason::Allowed) {
        decision.reason = Reason::StoreUnavailable;
        decision.remaining = 0;
    }
    decision.degraded = true;
    decision
}
