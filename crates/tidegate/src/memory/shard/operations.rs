//! What is done to a key beside deciding: refund, reset, inspect.

use super::{Of, Part, Shard, concluding::answer_from, weighing::Place};
use crate::{
    decision::Refund,
    inspect::Inspection,
    memory::{bounds::Bounds, id::Id},
    weigh::Outcome,
};

impl Shard {
    /// Gives units back to the moment they were charged.
    pub(in crate::memory) fn refund(&mut self, part: &Part<'_>, charged_at: i64, bounds: &Bounds) -> Refund {
        if let Some(by) = self.overrider(part, bounds) {
            return self.refund_overridden(part, &by, charged_at, bounds);
        }
        let found = self.keys.find(part.id).map(|at| (Of::Keys, at));
        let found = found.or_else(|| self.overflow_state(part, bounds).map(|at| (Of::Shared, at)));
        self.refund_at(found, part, charged_at, bounds)
    }

    /// Gives units back to a state, if there is one.
    pub(super) fn refund_at(
        &mut self,
        found: Option<(Of, usize)>,
        part: &Part<'_>,
        charged_at: i64,
        bounds: &Bounds,
    ) -> Refund {
        let Some((of, at)) = found else {
            let capacities = part.policy.rules().iter().map(|rule| rule.capacity);
            return Refund { returned: false, remaining: capacities.min().unwrap_or(0), reset_after_us: 0 };
        };
        let mut seen = self.weigh_at(of, at, Place::Own(at), part, bounds, false);
        let mut returned = false;
        // A state that can't be rewritten in the policy's shape keeps its units: stricter, never looser.
        let is_readable = self.shapes.is(self.table(of).slot(at), part.policy.shape().id())
            || self.may_have_shape(part.policy.shape(), bounds);
        if charged_at <= seen.newest && is_readable {
            self.redrain(of, at, part.policy, bounds);
            let shape = self.shape_of(of, at);
            returned =
                self.change(of, at, bounds, |held| held.refund(&shape, seen.newest, part.cost, charged_at, seen.at));
            seen = self.weigh_at(of, at, Place::Own(at), part, bounds, false);
        }
        let after =
            self.read(of, at, part.policy, |rules, states| answer_from(part, (rules, states), &seen, Outcome::Spared));
        Refund { returned, remaining: after.remaining, reset_after_us: after.reset_after_us }
    }

    /// Forgets a key; whether there was anything to forget.
    pub(in crate::memory) fn reset(&mut self, id: Id, bounds: &Bounds) -> bool {
        if let Some(at) = self.keys.find(id) {
            self.remove(at, bounds);
            return true;
        }
        let Some(at) = self.overridden_state(id) else {
            return false;
        };
        let slot = self.table_mut(Of::ActiveOverride).remove(at);
        self.discard(&slot, bounds);
        true
    }

    pub(in crate::memory) fn inspect(&mut self, part: &Part<'_>, bounds: &Bounds) -> Option<Inspection> {
        if let Some(by) = self.overrider(part, bounds) {
            return self.inspect_overridden(part, &by, bounds);
        }
        let at = self.keys.find(part.id)?;
        Some(self.inspect_at(Of::Keys, at, part, bounds))
    }

    pub(super) fn inspect_at(&mut self, of: Of, at: usize, part: &Part<'_>, bounds: &Bounds) -> Inspection {
        let mut seen = self.weigh_at(of, at, Place::Own(at), part, bounds, true);
        let inspection = self.read(of, at, part.policy, |rules, states| {
            Inspection::new(part.policy, rules, states, seen.newest, seen.moment(part))
        });
        self.put_back(of, at, seen.before.take(), bounds);
        inspection
    }
}
