//! Weighing: finds the state of a key and looks whether the cost of a request fits.

use std::sync::Arc;

use super::{Of, Part, Shard};
use crate::{
    memory::{
        bounds::{AtCapacity, Bounds},
        id::Id,
        slot::Slot,
    },
    reshape::Held,
    weigh::{Fit, Moment, Weighed, weigh},
};

/// What a request met.
pub(in crate::memory) struct Seen {
    pub(super) place: Place,
    pub(super) newest: i64,
    /// The time of the request, or of the newest charge if that is later.
    pub(super) at: i64,
    pub(super) weighed: Weighed,
    /// Units that earlier parts of the decision spend in the same overflow state.
    pub(super) earlier: u64,
    /// What a peek has to put back.
    pub(super) before: Option<Box<(Slot, Held)>>,
}

/// Where a key's state is, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Own(usize),
    /// Nowhere yet, but there is room.
    New,
    /// In the overflow state with this id, shared with other keys without room.
    Shared(Id),
    /// Nowhere, and it is let through.
    Uncounted,
    /// Nowhere, and it is denied.
    Refused,
    /// With those that an override decides, if it has one.
    ActiveOverride,
}

impl Seen {
    /// The time of the request, and the time that it is decided at.
    pub(super) fn moment(&self, part: &Part<'_>) -> Moment {
        Moment { now: part.now, at: self.at }
    }

    pub(in crate::memory) fn fits(&self) -> bool {
        self.weighed.fit == Fit::Fits && self.place != Place::Refused
    }

    /// Whether nothing can count the request, so that it is denied.
    pub(in crate::memory) fn is_refused(&self) -> bool {
        self.place == Place::Refused
    }

    /// Whether both use the same overflow state, given that they are in the same shard.
    pub(in crate::memory) fn shares_with(&self, other: &Self) -> bool {
        matches!(self.place, Place::Shared(_)) && self.place == other.place
    }

    /// Weighs the cost together with what earlier parts of the decision spend in the same overflow state.
    pub(in crate::memory) fn add_earlier(&mut self, part: &Part<'_>, units: u64) {
        self.earlier = units;
        self.weighed.weigh_again(part.policy.rules(), part.cost + units);
    }
}

impl Shard {
    /// Looks whether the cost fits. Only what a clock that went far back asks for is written, and a peek puts that back.
    pub(in crate::memory) fn weigh(&mut self, part: &Part<'_>, bounds: &Bounds, peek: bool) -> Seen {
        if let Some(at) = self.keys.find(part.id) {
            if self.lacks_shape(at, part, bounds) {
                return self.weigh_misshapen(part, bounds, peek);
            }
            return self.weigh_at(Of::Keys, at, Place::Own(at), part, bounds, peek);
        }
        match self.override_of(part.id).map(Arc::clone) {
            Some(by) => self.weigh_overridden(part, &by, bounds, peek),
            None => self.weigh_unknown(part, bounds, peek),
        }
    }

    pub(super) fn weigh_at(
        &mut self,
        of: Of,
        at: usize,
        place: Place,
        part: &Part<'_>,
        bounds: &Bounds,
        peek: bool,
    ) -> Seen {
        let before = self.believe(of, at, part.policy, part.now, bounds, peek);
        let newest = self.table(of).slot(at).newest();
        let moment = Moment { now: part.now, at: part.now.max(newest) };
        let weighed =
            self.read(of, at, part.policy, |rules, states| weigh(rules, states, newest, moment.at, part.cost));
        Seen { place, newest, at: moment.at, weighed, earlier: 0, before }
    }

    #[cold]
    pub(super) fn weigh_unknown(&mut self, part: &Part<'_>, bounds: &Bounds, peek: bool) -> Seen {
        let place = if self.make_room(part.policy.shape(), bounds) {
            Place::New
        } else {
            self.count_refused(part, bounds, peek);
            match bounds.at_capacity {
                AtCapacity::Shared => self.overflow_place(part, bounds).map_or(Place::Refused, Place::Shared),
                AtCapacity::Admit => Place::Uncounted,
                AtCapacity::Deny => Place::Refused,
            }
        };
        // A key that has shared limits with others starts from what they have used, so that it is not forgiven its part.
        match (place, self.overflow_state(part, bounds)) {
            (Place::New | Place::Shared(_), Some(at)) => {
                let mut seen = self.weigh_at(Of::Shared, at, place, part, bounds, peek);
                if place != Place::Shared(self.shared.slot(at).id) {
                    seen.newest = seen.at;
                    self.put_back(Of::Shared, at, seen.before.take(), bounds);
                }
                seen
            }
            _ => seen_of_nothing(part, place),
        }
    }

    /// Weighs a request for a key whose state would have to be rewritten in one shape more than callers may bring.
    #[cold]
    pub(super) fn weigh_misshapen(&mut self, part: &Part<'_>, bounds: &Bounds, peek: bool) -> Seen {
        self.count_refused(part, bounds, peek);
        let admits = bounds.at_capacity == AtCapacity::Admit;
        seen_of_nothing(part, if admits { Place::Uncounted } else { Place::Refused })
    }

    pub(super) fn count_refused(&mut self, part: &Part<'_>, bounds: &Bounds, peek: bool) {
        if !peek {
            self.tally.refused += 1;
            self.tally.refused_shapes += u64::from(!self.may_have_shape(part.policy.shape(), bounds));
        }
    }
}

/// The result of weighing a request while no units are in use.
pub(super) fn seen_of_nothing(part: &Part<'_>, place: Place) -> Seen {
    let weighed = Weighed::of_nothing(part.policy.rules(), part.cost);
    Seen { place, newest: part.now, at: part.now, weighed, earlier: 0, before: None }
}
