//! Where states are: reading, charging and changing them, in a slot or in the attic, and what a clock that went far back
//! does to them.

use std::sync::Arc;

use super::{LOG_STEP, Of, Part, Shard};
use crate::{
    algorithms::{LimitState, Recording},
    memory::{
        bounds::Bounds,
        id::Id,
        slot::{Slot, pack},
        table::Table,
    },
    policy::Policy,
    reshape::Held,
    shape::{Rule, Shape},
};

/// A clock that is behind the newest charge by more than this, and by more than the longest window, is believed.
pub(super) const FAR_BACK: i64 = 60_000_000;

impl Shard {
    #[inline]
    pub(super) fn table(&self, of: Of) -> &Table {
        match of {
            Of::Keys => &self.keys,
            Of::Shared => &self.shared,
            Of::ActiveOverride => &self.overridden,
        }
    }

    #[inline]
    pub(super) fn table_mut(&mut self, of: Of) -> &mut Table {
        match of {
            Of::Keys => &mut self.keys,
            Of::Shared => &mut self.shared,
            Of::ActiveOverride => &mut self.overridden,
        }
    }

    pub(super) fn shape_of(&self, of: Of, at: usize) -> Arc<Shape> {
        Arc::clone(self.shapes.of(self.table(of).slot(at)))
    }

    /// Lends the states of a state as `policy` sees it.
    #[inline]
    pub(super) fn read<R>(
        &self,
        of: Of,
        at: usize,
        policy: &Policy,
        with: impl FnOnce(&[Rule], &[LimitState]) -> R,
    ) -> R {
        let slot = self.table(of).slot(at);
        if self.shapes.is(slot, policy.shape().id()) {
            match slot.held() {
                None => {
                    let state = slot.unpack(policy.shape().kind());
                    return with(policy.rules(), std::slice::from_ref(&state));
                }
                Some(place) => {
                    if let Some(states) = self.attic.get(place).states() {
                        return with(policy.rules(), states);
                    }
                }
            }
        }
        let shape = self.shapes.of(slot);
        let unpacked;
        let held = match slot.held() {
            Some(place) => self.attic.get(place),
            None => {
                unpacked = Held::One(slot.unpack(shape.kind()));
                &unpacked
            }
        };
        let reading = held.read(shape, policy, slot.newest());
        with(reading.rules(policy), reading.states())
    }

    /// Charges a state, in the policy's shape whatever it was in before.
    pub(super) fn charge(
        &mut self,
        of: Of,
        at: usize,
        part: &Part<'_>,
        newest: i64,
        to: i64,
        bounds: &Bounds,
    ) -> Recording {
        let same = self.shapes.is(self.table(of).slot(at), part.policy.shape().id());
        let room = bounds.has_room(LOG_STEP + self.attic.bytes_to_put());
        let from = self.shape_of(of, at);
        let recorded = self.change(of, at, bounds, |held| {
            if same {
                return held.charge(&from, newest, part.cost, to, room);
            }
            *held = held.rewritten(&from, part.policy, newest, to);
            let newest = if matches!(held, Held::Moved(_)) { newest } else { to };
            held.charge(part.policy.shape(), newest, part.cost, to, room)
        });
        self.table_mut(of).slot_mut(at).set_newest(to);
        if !same {
            self.set_shape(of, at, part.policy.shape(), bounds);
        }
        self.tally.joined += u64::from(recorded == Recording::Joined);
        recorded
    }

    /// Writes down that a debt drains at another rate, if that is what has changed of a policy.
    pub(super) fn redrain(&mut self, of: Of, at: usize, policy: &Policy, bounds: &Bounds) {
        let from = self.shape_of(of, at);
        if from.id() == policy.shape().id() {
            return;
        }
        let redrained = self.change(of, at, bounds, |held| {
            let redrained = held.redrained(&from, policy.shape());
            redrained.map(|redrained| *held = redrained).is_some()
        });
        if redrained {
            self.set_shape(of, at, policy.shape(), bounds);
        }
    }

    /// Records that a state has been rewritten in another shape.
    fn set_shape(&mut self, of: Of, at: usize, shape: &Arc<Shape>, bounds: &Bounds) {
        let slot = *self.table(of).slot(at);
        let freed = self.shapes.give_back(&slot);
        let (number, taken) = self.shapes.take(slot.id, shape, bounds.are_of_callers());
        bounds.note(freed, taken);
        self.table_mut(of).slot_mut(at).set_shape(number);
    }

    /// Whether there may be a state of `shape`, new or rewritten: always, unless callers have brought too many shapes.
    pub(super) fn may_have_shape(&self, shape: &Shape, bounds: &Bounds) -> bool {
        !bounds.are_of_callers() || self.shapes.has_number_for(shape)
    }

    /// Changes a state, wherever it is held, and puts it where it belongs by its size.
    pub(super) fn change<R>(&mut self, of: Of, at: usize, bounds: &Bounds, with: impl FnOnce(&mut Held) -> R) -> R {
        let slot = *self.table(of).slot(at);
        let Some(place) = slot.held() else {
            let mut held = Held::One(slot.unpack(self.shapes.of(&slot).kind()));
            let result = with(&mut held);
            self.store(of, at, held, bounds);
            return result;
        };
        let held = self.attic.get_mut(place);
        let before = held.heap_bytes();
        let result = with(held);
        let after = held.heap_bytes();
        bounds.note(before, after);
        if let Held::One(state) = held
            && let Some(body) = pack(state)
        {
            self.attic.take(place);
            self.table_mut(of).slot_mut(at).set_packed(body);
            bounds.note(after, 0);
        }
        result
    }

    /// Puts a state into its slot, or into the attic if it doesn't fit. It was held nowhere before.
    pub(super) fn store(&mut self, of: Of, at: usize, held: Held, bounds: &Bounds) {
        let packed = match &held {
            Held::One(state) => pack(state),
            _ => None,
        };
        if let Some(body) = packed {
            self.table_mut(of).slot_mut(at).set_packed(body);
            return;
        }
        let (before, own) = (self.attic.heap_bytes(), held.heap_bytes());
        let sparing = !bounds.has_room(self.attic.bytes_to_put());
        let place = self.attic.put(held, sparing);
        bounds.note(before, self.attic.heap_bytes() + own);
        self.table_mut(of).slot_mut(at).set_held(place);
    }

    /// Inserts a new state. Returns its place.
    pub(super) fn put_new(
        &mut self,
        of: Of,
        id: Id,
        policy: &Policy,
        held: Held,
        newest: i64,
        bounds: &Bounds,
    ) -> usize {
        let at = self.put_empty(of, id, policy, newest, bounds);
        self.store(of, at, held, bounds);
        at
    }

    /// Inserts a slot for a new state. It reads as a state with a single state in which no units are in use.
    #[inline]
    pub(super) fn put_empty(&mut self, of: Of, id: Id, policy: &Policy, newest: i64, bounds: &Bounds) -> usize {
        let (shape, taken) = self.shapes.take(id, policy.shape(), bounds.are_of_callers());
        bounds.note(0, taken);
        let before = self.table(of).heap_bytes();
        let at = self.table_mut(of).insert(Slot::new(id, shape, newest));
        bounds.note(before, self.table(of).heap_bytes());
        at
    }

    pub(super) fn remove(&mut self, at: usize, bounds: &Bounds) {
        let slot = self.keys.remove(at);
        self.discard(&slot, bounds);
        bounds.give_back_key();
    }

    /// Lets go of what a removed slot stood for.
    pub(super) fn discard(&mut self, slot: &Slot, bounds: &Bounds) {
        bounds.note(self.shapes.give_back(slot), 0);
        if let Some(place) = slot.held() {
            bounds.note(self.attic.take(place).heap_bytes(), 0);
        }
    }

    /// Believes a clock that is far behind the newest charge: what was in use then is in use now. Gives what was there
    /// before, if it is to be put back.
    #[inline]
    pub(super) fn believe(
        &mut self,
        of: Of,
        at: usize,
        policy: &Policy,
        now: i64,
        bounds: &Bounds,
        peek: bool,
    ) -> Option<Box<(Slot, Held)>> {
        let behind = self.table(of).slot(at).newest() - now;
        if behind <= FAR_BACK || behind <= policy.shape().longest() {
            return None;
        }
        self.rebase(of, at, now, bounds, peek)
    }

    #[cold]
    pub(super) fn rebase(
        &mut self,
        of: Of,
        at: usize,
        now: i64,
        bounds: &Bounds,
        peek: bool,
    ) -> Option<Box<(Slot, Held)>> {
        let slot = *self.table(of).slot(at);
        let shape = self.shape_of(of, at);
        let before = self.change(of, at, bounds, |held| {
            let before = peek.then(|| held.clone());
            held.rebase(&shape, slot.newest(), now);
            before
        });
        self.table_mut(of).slot_mut(at).set_newest(now);
        before.map(|held| Box::new((slot, held)))
    }

    #[inline]
    pub(super) fn put_back(&mut self, of: Of, at: usize, before: Option<Box<(Slot, Held)>>, bounds: &Bounds) {
        if let Some(before) = before {
            let (slot, state) = *before;
            self.change(of, at, bounds, |held| *held = state);
            self.table_mut(of).slot_mut(at).set_newest(slot.newest());
        }
    }
}
