//! [`Attic`]: where the states are that don't fit into a slot.

use crate::reshape::Held;

/// How many places are allocated at once when bytes are short.
const SPARING: usize = 4;

/// Numbered places for larger states.
#[derive(Debug, Default)]
pub(super) struct Attic {
    places: Vec<Line>,
    /// The first of the free places, which are chained.
    free: Option<usize>,
}

/// A place that is one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Line(Place);

#[derive(Debug)]
enum Place {
    Taken(Held),
    Free { next: Option<usize> },
}

impl Attic {
    /// Size of a place.
    pub(super) const BYTES_EACH: usize = size_of::<Line>();

    pub(super) fn get(&self, place: usize) -> &Held {
        match self.places.get(place) {
            Some(Line(Place::Taken(held))) => held,
            _ => unreachable!("a slot names the place where its state is"),
        }
    }

    pub(super) fn get_mut(&mut self, place: usize) -> &mut Held {
        match self.places.get_mut(place) {
            Some(Line(Place::Taken(held))) => held,
            _ => unreachable!("a slot names the place where its state is"),
        }
    }

    /// Stores a state and returns its place. With `sparing`, only a few places are allocated at once.
    pub(super) fn put(&mut self, held: Held, sparing: bool) -> usize {
        let Some(place) = self.free else {
            if self.places.len() == self.places.capacity() {
                self.places.reserve_exact(if sparing { SPARING } else { 1 + self.places.len() / 4 });
            }
            self.places.push(Line(Place::Taken(held)));
            return self.places.len() - 1;
        };
        if let Place::Free { next } = self.places[place].0 {
            self.free = next;
        }
        self.places[place].0 = Place::Taken(held);
        place
    }

    pub(super) fn take(&mut self, place: usize) -> Held {
        let free = Place::Free { next: self.free };
        match std::mem::replace(&mut self.places[place].0, free) {
            Place::Taken(held) => {
                self.free = Some(place);
                held
            }
            Place::Free { .. } => unreachable!("a slot names the place where its state is"),
        }
    }

    /// How many bytes another state may take: none if a place is free.
    pub(super) fn bytes_to_put(&self) -> usize {
        if self.free.is_some() || self.places.len() < self.places.capacity() {
            0
        } else {
            (1 + self.places.len() / 4) * size_of::<Line>()
        }
    }

    /// The bytes of the places themselves; what a state holds on the heap is counted with it.
    pub(super) fn heap_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Line>()
    }
}

const _: () = assert!(size_of::<Line>() == 64);
