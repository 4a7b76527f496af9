//! [`Table`]: an open-addressed table of 32-byte slots.
//!
//! A slot's home is proportional to its id, and slots lie in the order of their ids, each at its home or as soon after as
//! there is place (linear probing, kept sorted). Homes begin cache lines of two slots, so a search mostly ends within one or
//! two adjacent lines, ends at the first greater id if there is none, and a larger table is filled in one pass. Sizes need
//! not be powers of two, so the table grows by less than half.

use super::{id::Id, slot::Slot};

/// Lines are added when more than 3 of 4 slots are taken.
const FULL: (usize, usize) = (3, 4);
const SMALLEST: usize = 8;
const TAIL: usize = 4;
const PER_LINE: usize = 2;

/// Slots in the order of their ids, with gaps.
#[derive(Debug, Default)]
pub(super) struct Table {
    lines: Vec<Line>,
    /// Homes are lines below this; behind it is a tail for what belongs to the last ones.
    homes: usize,
    taken: usize,
}

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line([Slot; PER_LINE]);

impl Line {
    const EMPTY: Self = Self([Slot::EMPTY; PER_LINE]);
}

/// The result of a search in the lines nearest to the home of an id.
enum Look {
    At(usize),
    Absent,
    /// The id may be further away.
    Further,
}

impl Table {
    /// Where `id` is.
    #[inline]
    pub(super) fn find(&self, id: Id) -> Option<usize> {
        match self.look(id) {
            Look::At(at) => Some(at),
            Look::Absent => None,
            Look::Further => {
                let at = self.seek(id);
                (at < self.places() && self.slot(at).id == id).then_some(at)
            }
        }
    }

    /// Where `id` is, if it is as close to its home as nearly all ids are.
    #[inline]
    pub(super) fn find_near(&self, id: Id) -> Option<usize> {
        match self.look(id) {
            Look::At(at) => Some(at),
            Look::Absent | Look::Further => None,
        }
    }

    /// Looks for `id` in the first two lines, where nearly all ids are. Comparing all slots is faster than deciding
    /// when to stop.
    #[inline]
    fn look(&self, id: Id) -> Look {
        let home = self.home(id);
        let Some([Line([a, b]), Line([c, d])]) = self.lines.get(home..home + 2) else {
            return Look::Further;
        };
        let is = |slot: &Slot| u32::from(slot.id.order == id.order);
        let same = is(a) | is(b) << 1 | is(c) << 2 | is(d) << 3;
        if same == 0 {
            return if d.id.order > id.order { Look::Absent } else { Look::Further };
        }
        let at = home * PER_LINE + same.trailing_zeros() as usize;
        if self.slot(at).id.rest == id.rest { Look::At(at) } else { Look::Further }
    }

    /// Where `id` is or belongs: the first slot that is not before it.
    fn seek(&self, id: Id) -> usize {
        let home = self.home(id) * PER_LINE;
        let before = |at: &usize| {
            let other = self.slot(*at).id;
            (other.order, other.rest) < (id.order, id.rest)
        };
        home + (home..self.places()).take_while(before).count()
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
        self.lines.len() * PER_LINE
    }

    #[inline]
    pub(super) fn slot(&self, at: usize) -> &Slot {
        &self.lines[at / PER_LINE].0[at % PER_LINE]
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, at: usize) -> &mut Slot {
        &mut self.lines[at / PER_LINE].0[at % PER_LINE]
    }

    /// Whether one more slot would make searches long.
    pub(super) fn is_full(&self) -> bool {
        (self.taken + 1) * FULL.1 > self.homes * PER_LINE * FULL.0
    }

    /// Puts a slot in whose id is not there yet. It always finds a place, but see [`is_full`](Self::is_full).
    pub(super) fn insert(&mut self, slot: Slot) -> usize {
        if self.homes == 0 {
            self.grow();
        }
        let at = self.seek(slot.id);
        let (mut place, mut moving) = (at, slot);
        loop {
            if place == self.places() {
                self.lengthen();
            }
            moving = std::mem::replace(self.slot_mut(place), moving);
            if moving.is_empty() {
                break;
            }
            place += 1;
        }
        self.taken += 1;
        at
    }

    /// Takes a slot out; those behind it that are away from home move up.
    pub(super) fn remove(&mut self, at: usize) -> Slot {
        let removed = *self.slot(at);
        let mut gap = at;
        while gap + 1 < self.places() {
            let next = *self.slot(gap + 1);
            if next.is_empty() || self.home(next.id) * PER_LINE > gap {
                break;
            }
            *self.slot_mut(gap) = next;
            gap += 1;
        }
        *self.slot_mut(gap) = Slot::EMPTY;
        self.taken -= 1;
        removed
    }

    /// How many bytes it takes to grow.
    pub(super) fn bytes_to_grow(&self) -> usize {
        (self.homes_when_grown() + TAIL) * size_of::<Line>()
    }

    /// Makes place for more.
    pub(super) fn grow(&mut self) {
        self.homes = self.homes_when_grown();
        let old = std::mem::replace(&mut self.lines, vec![Line::EMPTY; self.homes + TAIL]);
        let mut next = 0;
        for slot in old.into_iter().flat_map(|line| line.0).filter(|slot| !slot.is_empty()) {
            let at = next.max(self.home(slot.id) * PER_LINE);
            if at == self.places() {
                self.lengthen();
            }
            *self.slot_mut(at) = slot;
            next = at + 1;
        }
    }

    fn lengthen(&mut self) {
        self.lines.reserve_exact(TAIL);
        self.lines.extend([Line::EMPTY; TAIL]);
    }

    fn homes_when_grown(&self) -> usize {
        (self.homes + self.homes * 3 / 8).max(SMALLEST)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
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
