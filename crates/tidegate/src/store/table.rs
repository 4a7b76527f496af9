//! [`Table`]: an open-addressed table of 32-byte slots.
//!
//! A slot's home is proportional to its id, and slots lie in the order of their ids, each at its home or as soon after as
//! there is place (linear probing, kept sorted). So a search ends at the first greater id, a miss costs no more than a hit,
//! both mostly within one or two cache lines, and a larger table is filled in one pass. Sizes need not be powers of two, so
//! the table grows by less than half.

use super::{id::Id, slot::Slot};

/// Slots are added when more than 3 of 4 are taken.
const FULL: (usize, usize) = (3, 4);
const SMALLEST: usize = 16;
const TAIL: usize = 8;
/// How many places a search compares at a glance.
const GLANCE: usize = 4;

/// Slots in the order of their ids, with gaps.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Slot>,
    /// Homes are below this; behind it is a tail for what belongs to the last ones.
    homes: usize,
    taken: usize,
}

impl Table {
    /// Where `id` is.
    #[inline]
    pub(super) fn find(&self, id: Id) -> Option<usize> {
        let home = self.home(id);
        // Nearly all are within the first four places, and comparing them all costs less than guessing when to stop.
        if let Some(first) = self.slots.get(home..home + GLANCE) {
            let same = first.iter().rev().fold(0_u32, |same, slot| same << 1 | u32::from(slot.id.order == id.order));
            if same != 0 {
                let at = home + same.trailing_zeros() as usize;
                if self.slots[at].id.rest == id.rest {
                    return Some(at);
                }
            }
        }
        let at = self.seek(id);
        self.slots.get(at).is_some_and(|slot| slot.id == id).then_some(at)
    }

    /// Where `id` is or belongs: the first slot that is not before it.
    #[inline]
    fn seek(&self, id: Id) -> usize {
        let home = self.home(id);
        let rest = self.slots.get(home..).unwrap_or(&[]);
        let before = |slot: &&Slot| slot.id.order < id.order || (slot.id.order == id.order && slot.id.rest < id.rest);
        home + rest.iter().take_while(before).count()
    }

    #[inline]
    fn home(&self, id: Id) -> usize {
        // Proportional to the upper half: no division, and the order of ids is the order of homes.
        (((id.order >> 32) * self.homes as u64) >> 32) as usize
    }

    pub(super) fn len(&self) -> usize {
        self.taken
    }

    /// The number of places to walk over.
    pub(super) fn places(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(super) fn slot(&self, at: usize) -> &Slot {
        &self.slots[at]
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, at: usize) -> &mut Slot {
        &mut self.slots[at]
    }

    /// Whether one more slot would make searches long.
    pub(super) fn is_full(&self) -> bool {
        (self.taken + 1) * FULL.1 > self.homes * FULL.0
    }

    /// Puts a slot in whose id is not there yet. It always finds a place, but see [`is_full`](Self::is_full).
    pub(super) fn insert(&mut self, slot: Slot) -> usize {
        if self.homes == 0 {
            self.grow();
        }
        let at = self.seek(slot.id);
        let gap = self.slots[at..].iter().position(Slot::is_empty);
        let gap = gap.map_or(self.slots.len(), |ahead| at + ahead);
        if gap == self.slots.len() {
            self.lengthen();
        }
        self.slots.copy_within(at..gap, at + 1);
        self.slots[at] = slot;
        self.taken += 1;
        at
    }

    /// Takes a slot out; those behind it that are away from home move up.
    pub(super) fn remove(&mut self, at: usize) -> Slot {
        let removed = self.slots[at];
        let behind = &self.slots[at + 1..];
        let away =
            behind.iter().zip(at + 1..).take_while(|(slot, place)| !slot.is_empty() && self.home(slot.id) < *place);
        let end = at + 1 + away.count();
        self.slots.copy_within(at + 1..end, at);
        self.slots[end - 1] = Slot::EMPTY;
        self.taken -= 1;
        removed
    }

    /// How many bytes it takes to grow.
    pub(super) fn bytes_to_grow(&self) -> usize {
        (self.homes_when_grown() + TAIL) * size_of::<Slot>()
    }

    /// Makes place for more.
    pub(super) fn grow(&mut self) {
        self.homes = self.homes_when_grown();
        let old = std::mem::replace(&mut self.slots, vec![Slot::EMPTY; self.homes + TAIL]);
        let mut next = 0;
        for slot in old.into_iter().filter(|slot| !slot.is_empty()) {
            let at = self.home(slot.id).max(next);
            if at == self.slots.len() {
                self.lengthen();
            }
            self.slots[at] = slot;
            next = at + 1;
        }
    }

    fn lengthen(&mut self) {
        self.slots.reserve_exact(TAIL);
        self.slots.extend([Slot::EMPTY; TAIL]);
    }

    fn homes_when_grown(&self) -> usize {
        (self.homes + self.homes * 3 / 8).max(SMALLEST)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn id(order: u64, rest: u64) -> Id {
        Id { order, rest }
    }

    fn with_body(id: Id, body: u64) -> Slot {
        let mut slot = Slot::new(id, 0, 0);
        slot.set_packed(body);
        slot
    }

    /// Some generator of numbers without order.
    fn scatter(seed: u64) -> u64 {
        let mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    #[test]
    fn finds_what_was_put_in_and_nothing_else_whatever_came_and_went() {
        let mut table = Table::default();
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        for step in 0..20_000_u64 {
            // Few ids, so that they meet; a third of them crowd at the very end of the table.
            let n = scatter(step) % 700;
            let order = if n.is_multiple_of(3) { u64::MAX - 1 - n } else { scatter(n) };
            let id = id(order, n);
            assert_eq!(table.find(id).is_some(), model.contains_key(&n), "step {step}");
            match table.find(id) {
                Some(at) if scatter(step + 1).is_multiple_of(2) => {
                    assert_eq!(table.remove(at).body, model.remove(&n).unwrap());
                }
                Some(at) => assert_eq!(table.slot(at).body, model[&n]),
                None => {
                    if table.is_full() {
                        table.grow();
                    }
                    table.insert(with_body(id, step));
                    model.insert(n, step);
                }
            }
            assert_eq!(table.len(), model.len());
        }
        assert!(model.len() > 100);
    }

    #[test]
    fn ids_that_share_their_order_are_told_apart() {
        let mut table = Table::default();
        for rest in [5, 1, 9, 3] {
            table.insert(with_body(id(77, rest), rest));
        }
        for rest in [5, 1, 9, 3] {
            assert_eq!(table.slot(table.find(id(77, rest)).unwrap()).body, rest);
        }
        assert_eq!(table.find(id(77, 4)), None);
    }
}
