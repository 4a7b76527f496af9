//! Overflow states: states that keys without room share, so that they are limited more, never less.
//!
//! Each key has a fine and a coarse overflow state. Bits of the key's id that nobody can predict select both. In a
//! large store a policy has thousands of fine states, so few keys share one. The number of fine states of a shard is
//! bounded, and one policy can use only a part of them. If no fine state can be made, the key uses its coarse state,
//! one of four of its policy; a policy of the program's own always has it. Keys that share a fine state share the same
//! coarse state, and a fine state starts with the units in use in the coarse state. So the state that decides for a key
//! includes the units that the key has used in either of them.

use super::{LOG_STEP, Of, Part, Shard};
use crate::memory::{bounds::Bounds, id::Id, table::Table};

/// How many bits select one of the coarse states of a policy.
const COARSE_BITS: u32 = 2;
/// How many policies can have all their fine states at once.
const FULL_POLICIES: usize = 4;
/// Maximum number of coarse states in a shard under limits that callers bring.
const MAX_COARSE_OF_CALLERS: usize = 256;
/// How many overflow states are checked for expiry when a new one is made.
const SWEEP: usize = 16;

/// How many bits select one of the fine states of a policy, in each of the `shards` of a store for `max_keys`.
pub(in crate::memory) fn overflow_bits(max_keys: usize, shards: usize) -> u32 {
    (max_keys / 16 / shards).clamp(16, 4096).next_power_of_two().trailing_zeros()
}

fn overflow_id(part: &Part<'_>, bits: u32) -> Id {
    let identity = part.policy.identity().plain;
    // The highest bits select the place in the table, so the states of one policy are spread over it.
    let chosen = part.id.order & !(u64::MAX >> bits);
    let Id { order, rest } = Id::new(identity);
    Id { order: (chosen | order & u64::MAX >> bits).min(u64::MAX - 1), rest: rest ^ u64::from(bits) }
}

fn fine_id(part: &Part<'_>, bounds: &Bounds) -> Id {
    overflow_id(part, bounds.overflow_bits())
}

fn coarse_id(part: &Part<'_>) -> Id {
    overflow_id(part, COARSE_BITS)
}

impl Shard {
    /// The overflow state that holds the used units of a key without a state of its own, if there is one.
    pub(super) fn overflow_state(&self, part: &Part<'_>, bounds: &Bounds) -> Option<usize> {
        if self.shared.len() == 0 {
            return None;
        }
        self.shared.find(fine_id(part, bounds)).or_else(|| self.shared.find(coarse_id(part)))
    }

    /// The id of the overflow state to charge for a key, which may have to be made; `None` if there can be none.
    pub(super) fn overflow_place(&mut self, part: &Part<'_>, bounds: &Bounds) -> Option<Id> {
        let (fine, coarse) = (fine_id(part, bounds), coarse_id(part));
        if self.shared.find(fine).is_some() {
            return Some(fine);
        }
        // It redates nothing: other parts of the decision have been weighed.
        self.sweep_overflow(SWEEP, part.now, false, bounds);
        let may_be_new = self.may_have_shape(part.policy.shape(), bounds);
        let most_fine = FULL_POLICIES << bounds.overflow_bits();
        let growth = if self.shared.is_full() { self.shared.bytes_to_grow() } else { 0 };
        let has_room = || bounds.has_overflow_room(LOG_STEP + growth);
        let place = if may_be_new && self.shared.len() < most_fine && has_room() {
            fine
        } else if self.shared.find(coarse).is_some() {
            return Some(coarse);
        } else if may_be_new
            && (!bounds.are_of_callers() || self.shared.len() < most_fine + MAX_COARSE_OF_CALLERS && has_room())
        {
            coarse
        } else {
            return None;
        };
        if self.shared.is_full() {
            let before = self.shared.heap_bytes();
            self.shared.grow();
            bounds.note(before, self.shared.heap_bytes());
        }
        Some(place)
    }

    /// Checks the next `slots` for overflow states that have expired, and evicts them. With `redates`, states that were written
    /// while the clock was far ahead are redated to now, so that they can expire.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep_overflow(&mut self, slots: usize, now: i64, redates: bool, bounds: &Bounds) {
        if !bounds.forgets {
            return;
        }
        for _ in 0..slots {
            if self.shared.len() == 0 {
                let before = self.shared.heap_bytes();
                self.shared = Table::default();
                bounds.note(before, 0);
                return;
            }
            if self.overflow_hand >= self.shared.places() {
                self.overflow_hand = 0;
            }
            let at = self.overflow_hand;
            if redates && self.is_far_ahead(self.shared.slot(at), now) {
                self.rebase(Of::Shared, at, now, bounds, false);
            }
            if self.is_over(self.shared.slot(at), now) {
                let slot = self.shared.remove(at);
                self.discard(&slot, bounds);
                bounds.give_back_overflow();
            } else {
                self.overflow_hand += 1;
            }
        }
    }

    /// Whether there are overflow states, or memory is held for them.
    pub(super) fn has_overflow(&self) -> bool {
        self.shared.places() > 0
    }
}
