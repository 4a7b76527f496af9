//! Room for new keys: what has had its time is cleared away as they come.

use super::{LOG_STEP, Of, Overriding, Part, Shard, states::FAR_BACK};
use crate::{
    memory::{Op, bounds::Bounds, slot::Slot},
    reshape::Held,
    shape::Shape,
};

/// How many slots a new key looks at for one whose time has passed, and how many if there is no room.
const SWEEP: usize = 4;
const SWEEP_FOR_ROOM: usize = 32;

impl Shard {
    /// Clears away some of what has had its time if the key is a new one, more if there is no room for it. It comes before
    /// anything is weighed, so that no part of a decision is cleared away by another.
    pub(in crate::memory) fn tidy_for(&mut self, part: &Part<'_>, op: Op, bounds: &Bounds) {
        if let Some(at) = self.keys.find(part.id) {
            if self.lacks_shape(at, part, bounds) {
                self.tidy_for_shape(at, part, bounds);
            }
            if self.keys.find(part.id).is_some() {
                return;
            }
        }
        // A key whose override has ended may have had no state to come back with.
        let overriding = self.overriding(part, bounds);
        if overriding == Overriding::None || overriding == Overriding::Ended && self.keys.find(part.id).is_none() {
            self.tidy(part.now, op, bounds);
        }
    }

    /// The same for a key that is known to be new.
    pub(super) fn tidy(&mut self, now: i64, op: Op, bounds: &Bounds) {
        let full = !bounds.has_keys() || !bounds.has_room(LOG_STEP);
        let crowded = full || self.keys.is_full();
        if crowded && self.has_ended_overrides(now) {
            self.clear_overrides(now, bounds);
        }
        if full {
            self.redate(SWEEP_FOR_ROOM, now, op, bounds);
        }
        if self.has_overflow() {
            self.sweep_overflow(SWEEP, now, op != Op::Peek, bounds);
        }
        self.sweep(if crowded { SWEEP_FOR_ROOM } else { SWEEP }, now, bounds);
        if self.keys.is_full() && bounds.has_room(self.keys.bytes_to_grow()) {
            self.sweep(self.keys.places(), now, bounds);
            if self.keys.is_full() {
                let before = self.keys.heap_bytes();
                self.keys.grow();
                bounds.note(before, self.keys.heap_bytes());
            }
        }
    }

    /// Whether the state of a known key would have to be rewritten in one shape more than callers may bring.
    #[inline]
    pub(super) fn lacks_shape(&self, at: usize, part: &Part<'_>, bounds: &Bounds) -> bool {
        let shape = part.policy.shape();
        !self.may_have_shape(shape, bounds) && !self.shapes.is(self.keys.slot(at), shape.id())
    }

    /// Evicts some expired states, first that of the key itself, so that there may be a number for its shape.
    #[cold]
    pub(super) fn tidy_for_shape(&mut self, at: usize, part: &Part<'_>, bounds: &Bounds) {
        let hand = std::mem::replace(&mut self.hand, at);
        self.sweep(1, part.now, bounds);
        self.hand = hand;
        self.sweep(SWEEP_FOR_ROOM, part.now, bounds);
    }

    /// Reserves a place for one more key with a state of `shape`.
    pub(super) fn make_room(&self, shape: &Shape, bounds: &Bounds) -> bool {
        let room = !self.keys.is_full() && bounds.has_room(LOG_STEP + self.attic.bytes_to_put());
        room && self.may_have_shape(shape, bounds) && bounds.take_key()
    }

    /// Looks in the next `slots` for states that were written while the clock was far ahead, and redates them to now. Units in
    /// use stay in use, as after a request for the key, and the state can expire. A peek changes no state.
    #[cold]
    #[inline(never)]
    fn redate(&mut self, slots: usize, now: i64, op: Op, bounds: &Bounds) {
        if op == Op::Peek || !bounds.forgets {
            return;
        }
        let places = self.keys.places();
        for at in (self.hand..places).chain(0..self.hand.min(places)).take(slots) {
            let slot = *self.keys.slot(at);
            if self.is_far_ahead(&slot, now) {
                self.rebase(Of::Keys, at, now, bounds, false);
            }
        }
    }

    /// Whether a state was written while the clock was far ahead.
    pub(super) fn is_far_ahead(&self, slot: &Slot, now: i64) -> bool {
        let ahead = slot.newest() - now;
        !slot.is_empty() && ahead > FAR_BACK && ahead > self.shapes.of(slot).longest()
    }

    /// Evicts some expired states, to make room for keys of another shard.
    pub(in crate::memory) fn sweep_for_room(&mut self, now: i64, op: Op, bounds: &Bounds) {
        self.redate(SWEEP_FOR_ROOM, now, op, bounds);
        self.sweep(SWEEP_FOR_ROOM, now, bounds);
        if self.has_overflow() {
            self.sweep_overflow(SWEEP, now, op != Op::Peek, bounds);
        }
    }

    /// Looks at the next `slots` and forgets those whose time has passed.
    pub(super) fn sweep(&mut self, slots: usize, now: i64, bounds: &Bounds) {
        if !bounds.forgets {
            return;
        }
        for _ in 0..slots {
            if self.hand >= self.keys.places() {
                self.hand = 0;
            }
            if self.hand < self.keys.places() && self.is_forgettable(self.hand, now) {
                // What moves up into its place is looked at next.
                self.remove(self.hand, bounds);
                self.tally.evicted += 1;
            } else {
                self.hand += 1;
            }
        }
    }

    #[inline]
    fn is_forgettable(&mut self, at: usize, now: i64) -> bool {
        let slot = self.keys.slot(at);
        let (id, is_over) = (slot.id, self.is_over(slot, now));
        is_over && !self.lingers(id, now)
    }

    /// Whether a state may be forgotten: nothing is in use, and the longest window has passed since the newest charge.
    #[inline]
    pub(super) fn is_over(&self, slot: &Slot, now: i64) -> bool {
        !slot.is_empty() && now - slot.newest() > self.shapes.of(slot).longest() && self.is_idle(slot, now)
    }

    #[inline(never)]
    fn is_idle(&self, slot: &Slot, now: i64) -> bool {
        let shape = self.shapes.of(slot);
        match slot.held() {
            None => Held::One(slot.unpack(shape.kind())).is_idle(shape, slot.newest(), now),
            Some(place) => self.attic.get(place).is_idle(shape, slot.newest(), now),
        }
    }
}
