//! [`Shard`]: a part of the keys, behind one lock.
//!
//! A decision is made in two steps under the lock: [`Shard::weigh`] finds the key's state and looks whether the cost fits,
//! [`Shard::conclude`] charges it if the whole decision says so, and answers. Of several keys in one decision, all are weighed
//! before any is charged.

mod concluding;
mod operations;
mod overflow;
mod overrides;
mod overruled;
mod room;
mod states;
mod weighing;

pub(super) use overflow::overflow_bits;
pub(super) use overrides::Full;
use overrides::{Overrides, Overriding};
use states::FAR_BACK;
pub(super) use weighing::Seen;

use super::{Op, attic::Attic, bounds::Bounds, id::Id, shapes::Shapes, slot::pack, table::Table};
use crate::{
    decision::Decision,
    policy::{Only, Policy},
    reshape::Held,
    weigh::{Moment, Outcome, Single, Told},
};

/// What a log may take at once: a block, and its queue's growth.
const LOG_STEP: usize = 1024;

/// One request of a decision.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) policy: &'a Policy,
    pub(super) id: Id,
    pub(super) cost: u64,
    pub(super) now: i64,
}

/// Which of a shard's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Keys,
    Shared,
    ActiveOverride,
}

/// What a shard has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) evicted: u64,
    pub(super) refused: u64,
    pub(super) refused_shapes: u64,
    pub(super) joined: u64,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    keys: Table,
    shapes: Shapes,
    attic: Attic,
    shared: Table,
    tally: Tally,
    /// The next slot to look at for one whose time has passed.
    hand: usize,
    /// The next slot of the overflow states to look at for one that has expired.
    overflow_hand: usize,
    /// The states of the keys that have an override, as far as they have any.
    overridden: Table,
    /// Elsewhere, since few shards have any.
    overrides: Option<Box<Overrides>>,
}

impl Shard {
    /// Decides a request on its own.
    #[inline]
    pub(super) fn decide(&mut self, part: &Part<'_>, op: Op, bounds: &Bounds) -> Decision {
        if let (Some(at), Some(only)) = (self.keys.find_near(part.id), part.policy.only())
            && let Some((told, moment)) = self.decide_simple(at, part, only, op, bounds)
        {
            self.count(op, told.allows(only.mode));
            return told.decision(only, moment);
        }
        self.decide_any(*part, op, bounds)
    }

    /// Takes the request by value, so that requests on the fast path can stay in registers.
    #[cold]
    #[inline(never)]
    fn decide_any(&mut self, part: Part<'_>, op: Op, bounds: &Bounds) -> Decision {
        let part = &part;
        let only = part.policy.only();
        let mut found = self.keys.find(part.id);
        if let Some(at) = found
            && self.lacks_shape(at, part, bounds)
        {
            self.tidy_for_shape(at, part, bounds);
            found = self.keys.find(part.id);
        }
        let quick = match found {
            Some(at) => only.and_then(|only| self.decide_simple(at, part, only, op, bounds)),
            None => match self.overriding(part, bounds) {
                Overriding::Holds => None,
                Overriding::Ended => return self.decide_any(*part, op, bounds),
                Overriding::None => {
                    self.tidy(part.now, op, bounds);
                    only.and_then(|only| self.decide_new(part, only, op, bounds))
                }
            },
        };
        if let (Some((told, moment)), Some(only)) = (quick, only) {
            self.count(op, told.allows(only.mode));
            return told.decision(only, moment);
        }
        let seen = self.weigh(part, bounds, op == Op::Peek);
        let outcome = match (op, seen.fits()) {
            (Op::Check, true) | (Op::Charge, _) => Outcome::Charged,
            (Op::Peek, true) => Outcome::Spared,
            (Op::Check | Op::Peek, false) => Outcome::Denied,
        };
        let decision = self.conclude(part, seen, outcome, bounds);
        self.count(op, decision.is_allowed());
        decision
    }

    /// Decides what most requests are: a known key, one limit, a state of its shape and a clock that goes forwards. `None`
    /// for any other.
    #[inline]
    fn decide_simple(
        &mut self,
        at: usize,
        part: &Part<'_>,
        only: &Only,
        op: Op,
        bounds: &Bounds,
    ) -> Option<(Told, Moment)> {
        let rule = &only.rule;
        let slot = self.keys.slot_mut(at);
        let newest = slot.newest();
        if !self.shapes.is(slot, only.shape_id) || newest - part.now > FAR_BACK {
            return None;
        }
        let moment = Moment { now: part.now, at: part.now.max(newest) };
        let mut single = Single { op, cost: part.cost, capacity: rule.capacity, room: true };
        let Some(place) = slot.held() else {
            let (told, outgrown) = slot.apply(only.kind, rule, moment.at, single);
            if let Some(state) = outgrown {
                self.store(Of::Keys, at, Held::One(state), bounds);
            }
            return Some((told, moment));
        };
        let Held::One(state) = self.attic.get_mut(place) else {
            return None;
        };
        let before = state.heap_bytes();
        single.room = bounds.has_room(LOG_STEP);
        let told = state.apply(rule, newest, moment.at, single);
        if told.charged {
            slot.set_newest(moment.at);
            self.tally.joined += u64::from(told.joined);
            let after = state.heap_bytes();
            bounds.note(before, after);
            if let Some(body) = pack(state) {
                slot.set_packed(body);
                self.attic.take(place);
                bounds.note(after, 0);
            }
        }
        Some((told, moment))
    }

    /// Decides what most new keys ask for: something that fits under one limit, where there is room and nobody shares any. `None` for
    /// anything else.
    fn decide_new(&mut self, part: &Part<'_>, only: &Only, op: Op, bounds: &Bounds) -> Option<(Told, Moment)> {
        let fits = part.cost <= only.rule.capacity;
        if !(op == Op::Charge || op == Op::Check && fits) || self.shared.len() > 0 {
            return None;
        }
        if !self.make_room(part.policy.shape(), bounds) {
            return None;
        }
        let at = self.put_empty(Of::Keys, part.id, part.policy, part.now, bounds);
        let moment = Moment { now: part.now, at: part.now };
        let single = Single { op, cost: part.cost, capacity: only.rule.capacity, room: true };
        let (told, outgrown) = self.keys.slot_mut(at).apply(only.kind, &only.rule, part.now, single);
        if let Some(state) = outgrown {
            self.store(Of::Keys, at, Held::One(state), bounds);
        }
        Some((told, moment))
    }

    #[inline]
    pub(super) fn count(&mut self, op: Op, allowed: bool) {
        if op == Op::Peek {
            return;
        }
        if allowed {
            self.tally.allowed += 1;
        } else {
            self.tally.denied += 1;
        }
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }
}
