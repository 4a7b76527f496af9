//! [`Shapes`]: the shapes of the states in one shard, each with a small number that fits into a slot's head.
//!
//! There can be more shapes than numbers. If no number is free, the shape of a state is in a map, keyed by the state's
//! id. So the shape that a state was written in is always known. Callers are refused new shapes before the numbers run
//! out.

use std::{collections::HashMap, sync::Arc};

use super::{
    id::Id,
    slot::{MAX_SHAPES, Slot},
};
use crate::shape::Shape;

/// The number that all shapes without a number of their own have.
const UNNUMBERED: usize = MAX_SHAPES - 1;

/// Shapes by number, each for as long as some state has it.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// The shape taken last: mostly the next one, too.
    recent: Recent,
    known: Vec<Option<Known>>,
    /// How many shapes have a number.
    numbered: usize,
    unnumbered: HashMap<Id, Unnumbered>,
    /// Bytes of the shapes that only this shard holds.
    own_bytes: usize,
}

#[derive(Debug)]
struct Recent {
    id: u64,
    /// `usize::MAX` for none.
    number: usize,
}

impl Default for Recent {
    fn default() -> Self {
        Self { id: 0, number: usize::MAX }
    }
}

#[derive(Debug)]
struct Known {
    id: u64,
    shape: Arc<Shape>,
    states: usize,
    own_bytes: usize,
}

/// The shape of a state for which no number was free.
#[derive(Debug)]
struct Unnumbered {
    shape: Arc<Shape>,
    own_bytes: usize,
}

impl Shapes {
    /// Whether a state has the shape with this id.
    #[inline]
    pub(super) fn is(&self, slot: &Slot, id: u64) -> bool {
        (self.recent.number == slot.shape() && self.recent.id == id) || self.of(slot).id() == id
    }

    /// The shape of a state that is there.
    pub(super) fn of(&self, slot: &Slot) -> &Arc<Shape> {
        match self.known.get(slot.shape()) {
            Some(Some(known)) => &known.shape,
            _ => self.unnumbered(slot.id),
        }
    }

    #[cold]
    #[inline(never)]
    fn unnumbered(&self, id: Id) -> &Arc<Shape> {
        match self.unnumbered.get(&id) {
            Some(unnumbered) => &unnumbered.shape,
            None => unreachable!("a shape is kept as long as a state has it"),
        }
    }

    /// Whether there is a number for a state of `shape`.
    pub(super) fn has_number_for(&self, shape: &Shape) -> bool {
        self.numbered < UNNUMBERED || self.number_of(shape.id()).is_some()
    }

    /// WindowCounts one more state of `shape`. Returns the number of the shape, and how many more bytes are held. `owned`
    /// says that nothing else holds the shape, so that its own bytes count.
    #[inline]
    pub(super) fn take(&mut self, id: Id, shape: &Arc<Shape>, owned: bool) -> (usize, usize) {
        if self.recent.number != usize::MAX
            && self.recent.id == shape.id()
            && let Some(Some(known)) = self.known.get_mut(self.recent.number)
        {
            known.states += 1;
            return (self.recent.number, 0);
        }
        let before = self.heap_bytes();
        let number = self.take_other(id, shape, owned);
        (number, self.heap_bytes() - before)
    }

    #[inline(never)]
    fn take_other(&mut self, id: Id, shape: &Arc<Shape>, owned: bool) -> usize {
        let number = self.number_of(shape.id()).or_else(|| self.new_number(shape, owned));
        let Some(number) = number else {
            let own_bytes = if owned { shape.heap_bytes() } else { 0 };
            self.own_bytes += own_bytes;
            self.unnumbered.insert(id, Unnumbered { shape: Arc::clone(shape), own_bytes });
            return UNNUMBERED;
        };
        if let Some(Some(known)) = self.known.get_mut(number) {
            known.states += 1;
        }
        self.recent = Recent { id: shape.id(), number };
        number
    }

    fn number_of(&self, id: u64) -> Option<usize> {
        if self.recent.number != usize::MAX && self.recent.id == id {
            return Some(self.recent.number);
        }
        self.known.iter().position(|known| known.as_ref().is_some_and(|known| known.id == id))
    }

    fn new_number(&mut self, shape: &Arc<Shape>, owned: bool) -> Option<usize> {
        if self.numbered == UNNUMBERED {
            return None;
        }
        let own_bytes = if owned { shape.heap_bytes() } else { 0 };
        let known = Some(Known { id: shape.id(), shape: Arc::clone(shape), states: 0, own_bytes });
        self.numbered += 1;
        self.own_bytes += own_bytes;
        if self.numbered > self.known.len() {
            self.known.push(known);
            return Some(self.known.len() - 1);
        }
        let free = self.known.iter().position(Option::is_none)?;
        self.known[free] = known;
        Some(free)
    }

    /// WindowCounts one state less. Returns how many bytes are freed.
    pub(super) fn give_back(&mut self, slot: &Slot) -> usize {
        match self.known.get_mut(slot.shape()) {
            Some(Some(known)) if known.states > 1 => {
                known.states -= 1;
                0
            }
            Some(entry) => {
                let freed = entry.take().map_or(0, |known| known.own_bytes);
                self.own_bytes -= freed;
                self.numbered -= 1;
                self.recent = Recent::default();
                freed
            }
            None => {
                // The capacity that a map reports may fall when an entry is removed.
                let before = self.heap_bytes();
                self.own_bytes -= self.unnumbered.remove(&slot.id).map_or(0, |unnumbered| unnumbered.own_bytes);
                before - self.heap_bytes()
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        // A map has one more byte for each entry, which says whether the entry is in use.
        self.known.capacity() * size_of::<Option<Known>>()
            + self.unnumbered.capacity() * (size_of::<(Id, Unnumbered)>() + 1)
            + self.own_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Limit};

    #[test]
    fn shapes_without_a_number_count_with_their_bytes() {
        let mut shapes = Shapes::default();
        let mut held = 0;
        let mut slots = Vec::new();
        for n in 0..MAX_SHAPES as u64 + 50 {
            let shape = Arc::new(Shape::new(Algorithm::SlidingLog, &[Limit::from_vector(1, 1_000_000 + n)]));
            let id = Id { order: n, rest: n };
            let (number, taken) = shapes.take(id, &shape, true);
            assert!(taken >= shape.heap_bytes(), "{n}");
            slots.push(Slot::new(id, number, 0));
            held += taken;
        }
        assert_eq!((shapes.numbered, held), (UNNUMBERED, shapes.heap_bytes()));
        for slot in &slots {
            held -= shapes.give_back(slot);
        }
        assert_eq!((shapes.numbered, shapes.own_bytes, held), (0, 0, shapes.heap_bytes()));
    }
}
