//! [`Table`]: an open-addressed table of 32-byte slots.
//!
//! The home of a slot is proportional to its id. Slots are in the order of their ids, each at its home or in the next free
//! slot after it (sorted linear probing). A home is the start of a cache line of two slots. So a search usually ends within
//! two adjacent lines, it ends at the first greater id if the id is absent, and a larger table is filled in one pass. Sizes
//! need not be powers of two, so the table grows by less than half.

use super::{id::Id, slot::Slot};

/// The table grows when more than 3 of 4 slots are taken.
const FULL: (usize, usize) = (3, 4);
const SMALLEST: usize = 8;
const TAIL: usize = 4;
const PER_LINE: usize = 2;

/// Slots in the order of their ids, with gaps.
#[derive(Debug, Default)]
pub(super) struct Table {
    lines: Vec<CacheLine>,
    /// The number of lines that are homes. The lines after them are for slots that do not fit at the last homes.
    homes: usize,
    taken: usize,
}

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct CacheLine([Slot; PER_LINE]);

impl CacheLine {
    const EMPTY: Self = Self([Slot::EMPTY; PER_LINE]);
}

/// The result of a search in the lines nearest to the home of an id.
enum NearSearch {
    Found(usize),
    Absent,
    /// The id may be in a later line.
    Unknown,
}

impl Table {
    /// The index of `id`.
    #[inline]
    pub(super) fn find(&self, id: Id) -> Option<usize> {
        match self.search_near(id) {
            NearSearch::Found(at) => Some(at),
            NearSearch::Absent => None,
            NearSearch::Unknown => {
                let at = self.seek(id);
                (at < self.slot_count() && self.slot(at).id == id).then_some(at)
            }
        }
    }

    /// The index of `id`, if it is in the first two lines from its home, like nearly all ids.
    #[inline]
    pub(super) fn find_near(&self, id: Id) -> Option<usize> {
        match self.search_near(id) {
            NearSearch::Found(at) => Some(at),
            NearSearch::Absent | NearSearch::Unknown => None,
        }
    }

    /// Searches `id` in the first two lines from its home. Comparing all slots is faster than deciding when to stop.
    #[inline]
    fn search_near(&self, id: Id) -> NearSearch {
        let home = self.home(id);
        let Some([CacheLine([a, b]), CacheLine([c, d])]) = self.lines.get(home..home + 2) else {
            return NearSearch::Unknown;
        };
        let is = |slot: &Slot| u32::from(slot.id.order == id.order);
        let same = is(a) | is(b) << 1 | is(c) << 2 | is(d) << 3;
        if same == 0 {
            return if d.id.order > id.order { NearSearch::Absent } else { NearSearch::Unknown };
        }
        let at = home * PER_LINE + same.trailing_zeros() as usize;
        if self.slot(at).id.rest == id.rest { NearSearch::Found(at) } else { NearSearch::Unknown }
    }

    /// The index at which `id` is or belongs: the first slot that is not before it.
    fn seek(&self, id: Id) -> usize {
        let home = self.home(id) * PER_LINE;
        let before = |at: &usize| {
            let other = self.slot(*at).id;
            (other.order, other.rest) < (id.order, id.rest)
        };
        home + (home..self.slot_count()).take_while(before).count()
    }

    #[inline]
    fn home(&self, id: Id) -> usize {
        // Proportional to the upper half of the id. It needs no division, and homes have the order of ids.
        (((id.order >> 32) * self.homes as u64) >> 32) as usize
    }

    pub(super) fn len(&self) -> usize {
        self.taken
    }

    /// The number of slots, including empty ones.
    pub(super) fn slot_count(&self) -> usize {
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

    /// Inserts a slot with a new id. It always succeeds, but searches get slow if the table [is full](Self::is_full).
    pub(super) fn insert(&mut self, slot: Slot) -> usize {
        if self.homes == 0 {
            self.grow();
        }
        let at = self.seek(slot.id);
        let (mut index, mut moving) = (at, slot);
        loop {
            if index == self.slot_count() {
                self.lengthen();
            }
            moving = std::mem::replace(self.slot_mut(index), moving);
            if moving.is_empty() {
                break;
            }
            index += 1;
        }
        self.taken += 1;
        at
    }

    /// Removes a slot. Later slots that are not at their homes move up.
    pub(super) fn remove(&mut self, at: usize) -> Slot {
        let removed = *self.slot(at);
        let mut gap = at;
        while gap + 1 < self.slot_count() {
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

    /// The bytes of the table after it has grown.
    pub(super) fn bytes_to_grow(&self) -> usize {
        (self.homes_when_grown() + TAIL) * size_of::<CacheLine>()
    }

    /// Adds lines.
    pub(super) fn grow(&mut self) {
        self.homes = self.homes_when_grown();
        let old = std::mem::replace(&mut self.lines, vec![CacheLine::EMPTY; self.homes + TAIL]);
        let mut next = 0;
        for slot in old.into_iter().flat_map(|line| line.0).filter(|slot| !slot.is_empty()) {
            let at = next.max(self.home(slot.id) * PER_LINE);
            if at == self.slot_count() {
                self.lengthen();
            }
            *self.slot_mut(at) = slot;
            next = at + 1;
        }
    }

    fn lengthen(&mut self) {
        self.lines.reserve_exact(TAIL);
        self.lines.extend([CacheLine::EMPTY; TAIL]);
    }

    fn homes_when_grown(&self) -> usize {
        (self.homes + self.homes * 3 / 8).max(SMALLEST)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<CacheLine>()
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

    /// A pseudorandom number.
    fn scatter(seed: u64) -> u64 {
        let mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    #[test]
    fn finds_exactly_the_inserted_ids_after_any_inserts_and_removals() {
        let mut table = Table::default();
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        for step in 0..20_000_u64 {
            // There are few ids, so that they collide. A third of them is at the very end of the table.
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
    fn ids_with_the_same_order_are_distinguished() {
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
