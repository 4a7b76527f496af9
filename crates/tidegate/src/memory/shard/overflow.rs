//! Overflow states: states that keys without room share, so that they are limited more, never less.
//!
//! Each key has a fine and a coarse overflow state. Unpredictable bits of the key's id select both. In a large store a
//! policy has thousands of fine states, so few keys share one. The number of fine states of a shard is bounded, and one
//! policy can use only a part of them. If no fine state can be created, the key uses its coarse state, one of four of its
//! policy. A policy of the program itself always has its coarse states. Keys that share a fine state share the same coarse
//! state, and a fine state starts with the units in use in the coarse state. So the state that decides for a key includes
//! the units that the key has used in either of them.
//!
//! A key does not leave an overflow state with open reservations, because some of them may be its own: they end there, and
//! only there they count until they end.

use super::{Address, KeyRequest, LOG_GROWTH, Shard, TableId};
use crate::memory::{bounds::Bounds, id::Id, table::Table};

/// The number of bits that select one of the coarse states of a policy.
const COARSE_BITS: u32 = 2;
/// The number of policies that can have all their fine states at once.
const FULL_POLICIES: usize = 4;
/// The maximum number of coarse states in a shard for limits supplied by callers.
const MAX_CALLER_COARSE: usize = 256;
/// The number of overflow states that are checked for expiry when a new one is created.
const SWEEP: usize = 16;

/// The number of bits that select one of the fine states of a policy, in each of the `shards` of a store for `max_keys`.
pub(in crate::memory) fn overflow_bits(max_keys: usize, shards: usize) -> u32 {
    (max_keys / 16 / shards).clamp(16, 4096).next_power_of_two().trailing_zeros()
}

fn overflow_id(request: &KeyRequest<'_>, bits: u32) -> Id {
    let identity = request.policy.identity().plain;
    // The highest bits select the place in the table, so the states of one policy are spread over it.
    let selected = request.id.order & !(u64::MAX >> bits);
    let Id { order, rest } = Id::new(identity);
    Id { order: (selected | order & u64::MAX >> bits).min(u64::MAX - 1), rest: rest ^ u64::from(bits) }
}

fn fine_id(request: &KeyRequest<'_>, bounds: &Bounds) -> Id {
    overflow_id(request, bounds.overflow_bits())
}

fn coarse_id(request: &KeyRequest<'_>) -> Id {
    overflow_id(request, COARSE_BITS)
}

impl Shard {
    /// The overflow state with the used units of a key that has no state of its own, if it exists.
    pub(super) fn overflow_state(&self, request: &KeyRequest<'_>, bounds: &Bounds) -> Option<Address> {
        if self.overflow.len() == 0 {
            return None;
        }
        let [fine, coarse] = self.overflow_states(request, bounds);
        fine.or(coarse)
    }

    /// The fine and the coarse overflow state of a key, if they exist.
    pub(super) fn overflow_states(&self, request: &KeyRequest<'_>, bounds: &Bounds) -> [Option<Address>; 2] {
        if self.overflow.len() == 0 {
            return [None, None];
        }
        [fine_id(request, bounds), coarse_id(request)].map(|id| self.overflow.find(id).map(Address::overflow))
    }

    /// The id of the overflow state that a key must keep using, because it has open reservations.
    pub(super) fn overflow_with_reservations(&self, request: &KeyRequest<'_>, bounds: &Bounds) -> Option<Id> {
        let address = self.overflow_state(request, bounds)?;
        let last_end = self.reservations_at(address)?.last_end()?;
        (last_end > request.now.max(self.newest(address))).then(|| self.slot(address).id)
    }

    /// The id of the overflow state to charge for a key. The state may not exist yet. `None` if it cannot be created.
    pub(super) fn reserve_overflow(&mut self, request: &KeyRequest<'_>, bounds: &Bounds) -> Option<Id> {
        let (fine, coarse) = (fine_id(request, bounds), coarse_id(request));
        if self.overflow.find(fine).is_some() {
            return Some(fine);
        }
        // It redates nothing, because other requests of the decision have been checked already.
        self.sweep_overflow(SWEEP, request.now, false, bounds);
        let allows_layout = self.allows_layout(request.policy.layout(), bounds);
        let max_fine = FULL_POLICIES << bounds.overflow_bits();
        let growth = if self.overflow.is_full() { self.overflow.bytes_to_grow() } else { 0 };
        let has_room = || bounds.has_overflow_room(LOG_GROWTH + growth);
        let id = if allows_layout && self.overflow.len() < max_fine && has_room() {
            fine
        } else if self.overflow.find(coarse).is_some() {
            return Some(coarse);
        } else if allows_layout
            && (!bounds.are_for_callers() || self.overflow.len() < max_fine + MAX_CALLER_COARSE && has_room())
        {
            coarse
        } else {
            return None;
        };
        if self.overflow.is_full() {
            self.grow(TableId::Overflow, bounds);
        }
        Some(id)
    }

    /// Checks the next `slots` for expired overflow states and evicts them. With `redate`, states from a time far ahead
    /// are redated to now, so that they can expire.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep_overflow(&mut self, slots: usize, now: i64, redate: bool, bounds: &Bounds) {
        if !bounds.evicts {
            return;
        }
        for _ in 0..slots {
            if self.overflow.len() == 0 {
                let before = self.overflow.heap_bytes();
                self.overflow = Table::default();
                bounds.count_bytes(before, 0);
                return;
            }
            if self.next_overflow_sweep >= self.overflow.slot_count() {
                self.next_overflow_sweep = 0;
            }
            let index = self.next_overflow_sweep;
            if redate && self.is_far_ahead(self.overflow.slot(index), now) {
                self.rebase(Address::overflow(index), now, bounds, false);
            }
            if self.is_expired(self.overflow.slot(index), now) {
                let slot = self.overflow.remove(index);
                self.discard(&slot, bounds);
                bounds.give_back_overflow();
            } else {
                self.next_overflow_sweep += 1;
            }
        }
    }

    /// Whether overflow states exist, or memory is allocated for them.
    pub(super) fn has_overflow(&self) -> bool {
        self.overflow.slot_count() > 0
    }
}
