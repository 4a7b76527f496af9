//! The operations on a key other than decisions: refund, reset and inspect.

use super::{Address, KeyRequest, Shard, check::StateLocation, commit::answer_from};
use crate::{
    answer::Outcome,
    decision::Refund,
    inspect::Inspection,
    memory::{bounds::Bounds, id::Id},
};

impl Shard {
    /// Gives units back to the time of their charge.
    pub(in crate::memory) fn refund(&mut self, request: &KeyRequest<'_>, charged_at: i64, bounds: &Bounds) -> Refund {
        if let Some(active) = self.active_override(request, bounds) {
            return self.refund_overridden(request, &active, charged_at, bounds);
        }
        let own = self.keys.find(request.id).map(Address::key);
        let address = own.or_else(|| self.overflow_state(request, bounds));
        self.refund_at(address, request, charged_at, bounds)
    }

    /// Gives units back to a state, if it exists.
    pub(super) fn refund_at(
        &mut self,
        address: Option<Address>,
        request: &KeyRequest<'_>,
        charged_at: i64,
        bounds: &Bounds,
    ) -> Refund {
        let policy = request.policy;
        let Some(address) = address else {
            return Refund::nothing(policy);
        };
        let location = StateLocation::Own(address.index);
        let mut checked = self.check_at(address, location, request, bounds, false);
        let mut returned = false;
        // A state that cannot be converted to the policy's layout keeps its units: stricter, never looser.
        let is_readable =
            self.layouts.is(self.slot(address), policy.layout().id()) || self.allows_layout(policy.layout(), bounds);
        let newest = self.newest(address);
        if charged_at <= newest && is_readable {
            self.update_drain_rates(address, policy, bounds);
            let layout = self.layout_of(address);
            returned = self
                .change(address, bounds, |states| states.refund(&layout, newest, request.cost, charged_at, checked.at));
            checked = self.check_at(address, location, request, bounds, false);
        }
        let after = self.read(address, policy, |view| answer_from(view, request, &checked, Outcome::NotCharged));
        Refund { returned, remaining: after.remaining, reset_after_us: after.reset_after_us }
    }

    /// Deletes the state of a key. Returns whether it existed.
    pub(in crate::memory) fn reset(&mut self, id: Id, bounds: &Bounds) -> bool {
        if let Some(at) = self.keys.find(id) {
            self.remove(at, bounds);
            return true;
        }
        let Some(address) = self.overridden_state(id) else {
            return false;
        };
        let slot = self.table_mut(address.table).remove(address.index);
        self.discard(&slot, bounds);
        true
    }

    pub(in crate::memory) fn inspect(&mut self, request: &KeyRequest<'_>, bounds: &Bounds) -> Option<Inspection> {
        if let Some(active) = self.active_override(request, bounds) {
            return self.inspect_overridden(request, &active, bounds);
        }
        let at = self.keys.find(request.id)?;
        Some(self.inspect_at(Address::key(at), request, bounds))
    }

    pub(super) fn inspect_at(&mut self, address: Address, request: &KeyRequest<'_>, bounds: &Bounds) -> Inspection {
        let mut checked = self.check_at(address, StateLocation::Own(address.index), request, bounds, true);
        let moment = checked.moment(request);
        let inspection = self.read(address, request.policy, |view| Inspection::new(request.policy, view, moment));
        self.restore(address, checked.before.take(), bounds);
        inspection
    }
}
