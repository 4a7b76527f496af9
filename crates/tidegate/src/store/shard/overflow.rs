//! Overflow: the states that keys without room share, so that they are limited more, never less.
//!
//! A key has two of them to go to, chosen by bits of its id that nobody can predict. The fine one is among thousands of its
//! policy in large stores, so few keys share it; there is a bound on all fine ones of a shard, of which one policy can take
//! a part only. The coarse one is among four of its policy, for when no fine one can be had; a policy of the program's own
//! always has it. Keys that share a fine state share the coarse one, too, and a fine state starts from what is in use in the
//! coarse one: whatever a key has spent in either is in the one that it is decided by.

use super::{LOG_STEP, Part, Shard};
use crate::store::{bounds::Bounds, id::Id};

/// How many bits choose among the coarse states of a policy.
const COARSE_BITS: u32 = 2;
/// How many policies can have all their fine states at once.
const FULL_POLICIES: usize = 4;
/// How many coarse states there may be in a shard under limits that callers bring.
const MAX_COARSE_OF_CALLERS: usize = 256;
/// How many overflow states a new one looks at for one whose time has passed.
const SWEEP: usize = 16;

/// The bits that choose the fine states of a policy in each of `shards`, of a store for `max_keys`.
pub(in crate::store) fn overflow_bits(max_keys: usize, shards: usize) -> u32 {
    (max_keys / 16 / shards).clamp(16, 4096).next_power_of_two().trailing_zeros()
}

fn overflow_id(part: &Part<'_>, bits: u32) -> Id {
    let identity = part.policy.identity().plain;
    // The highest bits place it in the table, so that the states of one policy are spread.
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
    /// The overflow state that holds what a key without a state of its own has spent, if there is any.
    pub(super) fn overflow_state(&self, part: &Part<'_>, bounds: &Bounds) -> Option<usize> {
        if self.shared.len() == 0 {
            return None;
        }
        self.shared.find(fine_id(part, bounds)).or_else(|| self.shared.find(coarse_id(part)))
    }

    /// The id of the overflow state that a key is to be charged to, there or to be made; `None` if there can be none.
    pub(super) fn overflow_place(&mut self, part: &Part<'_>, bounds: &Bounds) -> Option<Id> {
        let (fine, coarse) = (fine_id(part, bounds), coarse_id(part));
        if self.shared.find(fine).is_some() {
            return Some(fine);
        }
        self.sweep_overflow(part.now, bounds);
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

    /// Looks at some overflow states and forgets those whose time has passed.
    fn sweep_overflow(&mut self, now: i64, bounds: &Bounds) {
        for _ in 0..SWEEP {
            if self.overflow_hand >= self.shared.places() {
                self.overflow_hand = 0;
            }
            if self.overflow_hand < self.shared.places() && self.is_over(self.shared.slot(self.overflow_hand), now) {
                let slot = self.shared.remove(self.overflow_hand);
                self.discard(&slot, bounds);
                bounds.give_back_overflow();
            } else {
                self.overflow_hand += 1;
            }
        }
    }
}
