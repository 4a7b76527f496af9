//! Eviction: expired states are evicted as new keys arrive.

use super::{Address, KeyRequest, LOG_GROWTH, OverrideStatus, Shard, TableId};
use crate::{
    key_state::is_far_behind,
    layout::Layout,
    limit_states::LimitStates,
    memory::{bounds::Bounds, slot::Slot},
    op::Op,
};

/// The number of slots that are checked for expiry for a new key, and the number if there is no room.
const SWEEP: usize = 4;
const SWEEP_FOR_ROOM: usize = 32;

impl Shard {
    /// Evicts some expired states if the key is new, and more if there is no room for it. It runs before any request of a
    /// decision is checked, so that no request evicts the state of another.
    pub(in crate::memory) fn evict_for(&mut self, request: &KeyRequest<'_>, op: Op, bounds: &Bounds) {
        if let Some(at) = self.keys.find(request.id) {
            if self.lacks_layout(at, request, bounds) {
                self.evict_for_layout(at, request, bounds);
            }
            if self.keys.find(request.id).is_some() {
                return;
            }
        }
        let is_new = match self.override_status(request, bounds) {
            OverrideStatus::None => true,
            OverrideStatus::Active => false,
            // The key may have had no state that could move back.
            OverrideStatus::Ended => self.keys.find(request.id).is_none(),
        };
        if is_new {
            self.evict_for_new_key(request.now, op, bounds);
        }
    }

    pub(super) fn evict_for_new_key(&mut self, now: i64, op: Op, bounds: &Bounds) {
        let full = !bounds.has_keys() || !bounds.has_room(LOG_GROWTH);
        let crowded = full || self.keys.is_full();
        if crowded && self.has_ended_overrides(now) {
            self.remove_ended_overrides(now, bounds);
        }
        if full {
            self.redate(SWEEP_FOR_ROOM, now, op, bounds);
        }
        if self.has_overflow() {
            self.sweep_overflow(SWEEP, now, op != Op::Peek, bounds);
        }
        self.sweep(if crowded { SWEEP_FOR_ROOM } else { SWEEP }, now, bounds);
        if self.keys.is_full() && bounds.has_room(self.keys.bytes_to_grow()) {
            self.sweep(self.keys.slot_count(), now, bounds);
            if self.keys.is_full() {
                self.grow(TableId::Keys, bounds);
            }
        }
    }

    /// Whether the state of a known key would need one layout more than callers may supply.
    #[inline]
    pub(super) fn lacks_layout(&self, at: usize, request: &KeyRequest<'_>, bounds: &Bounds) -> bool {
        let layout = request.policy.layout();
        !self.allows_layout(layout, bounds) && !self.layouts.is(self.keys.slot(at), layout.id())
    }

    /// Evicts some expired states, the key's own state first, so that a number for its layout may become free.
    #[cold]
    pub(super) fn evict_for_layout(&mut self, at: usize, request: &KeyRequest<'_>, bounds: &Bounds) {
        let next = std::mem::replace(&mut self.next_sweep, at);
        self.sweep(1, request.now, bounds);
        self.next_sweep = next;
        self.sweep(SWEEP_FOR_ROOM, request.now, bounds);
    }

    /// Reserves a place for one more key with a state of `layout`. Returns whether there is room.
    pub(super) fn reserve_key(&self, layout: &Layout, bounds: &Bounds) -> bool {
        let room = !self.keys.is_full() && bounds.has_room(LOG_GROWTH + self.large_states.bytes_to_put());
        room && self.allows_layout(layout, bounds) && bounds.take_key()
    }

    /// Redates states from a time far ahead to now, among the next `slots`. Units in use stay in use, as after a request
    /// for the key, and the state can expire. A peek changes no state.
    #[cold]
    #[inline(never)]
    fn redate(&mut self, slots: usize, now: i64, op: Op, bounds: &Bounds) {
        if op == Op::Peek || !bounds.evicts {
            return;
        }
        let count = self.keys.slot_count();
        for at in (self.next_sweep..count).chain(0..self.next_sweep.min(count)).take(slots) {
            if self.is_far_ahead(self.keys.slot(at), now) {
                self.rebase(Address::key(at), now, bounds, false);
            }
        }
    }

    /// Whether a state was written while the clock was far ahead.
    pub(super) fn is_far_ahead(&self, slot: &Slot, now: i64) -> bool {
        !slot.is_empty() && is_far_behind(now, slot.newest(), self.layouts.of(slot))
    }

    /// Evicts some expired states, to make room for the keys of another shard.
    pub(in crate::memory) fn sweep_for_room(&mut self, now: i64, op: Op, bounds: &Bounds) {
        self.redate(SWEEP_FOR_ROOM, now, op, bounds);
        self.sweep(SWEEP_FOR_ROOM, now, bounds);
        if self.has_overflow() {
            self.sweep_overflow(SWEEP, now, op != Op::Peek, bounds);
        }
    }

    /// Checks the next `slots` for expired states and evicts them.
    fn sweep(&mut self, slots: usize, now: i64, bounds: &Bounds) {
        if !bounds.evicts {
            return;
        }
        for _ in 0..slots {
            if self.next_sweep >= self.keys.slot_count() {
                self.next_sweep = 0;
            }
            if self.next_sweep < self.keys.slot_count() && self.is_evictable(self.next_sweep, now) {
                // The slot that moves into the gap is checked next.
                self.remove(self.next_sweep, bounds);
                self.counters.evicted += 1;
            } else {
                self.next_sweep += 1;
            }
        }
    }

    #[inline]
    fn is_evictable(&mut self, at: usize, now: i64) -> bool {
        let slot = self.keys.slot(at);
        let (id, is_expired) = (slot.id, self.is_expired(slot, now));
        is_expired && !self.is_kept(id, now)
    }

    /// Whether no units are in use and the longest window has passed since the newest charge.
    #[inline]
    pub(super) fn is_expired(&self, slot: &Slot, now: i64) -> bool {
        !slot.is_empty() && now - slot.newest() > self.layouts.of(slot).longest_window() && self.is_idle(slot, now)
    }

    #[inline(never)]
    fn is_idle(&self, slot: &Slot, now: i64) -> bool {
        let layout = self.layouts.of(slot);
        match slot.large_state() {
            None => LimitStates::One(slot.unpack(layout.kind())).is_idle(layout, slot.newest(), now),
            Some(large) => self.large_states.get(large).is_idle(layout, slot.newest(), now),
        }
    }
}
