//! [`Shapes`]: the shapes of the states in one shard, each with a small number that fits into a slot's head.

use std::sync::Arc;

use super::slot::MAX_SHAPES;
use crate::shape::Shape;

/// Shapes by number, each for as long as some state has it.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// The shape taken last: mostly the next one, too.
    recent: Recent,
    known: Vec<Option<Known>>,
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
    shape: Arc<Shape>,
    states: usize,
}

impl Shapes {
    /// Whether `number` is that of the shape with this id.
    #[inline]
    pub(super) fn is(&self, number: usize, id: u64) -> bool {
        (self.recent.number == number && self.recent.id == id) || self.get(number).id() == id
    }

    /// The shape of a state that is there.
    pub(super) fn get(&self, number: usize) -> &Arc<Shape> {
        match self.known.get(number) {
            Some(Some(known)) => &known.shape,
            _ => unreachable!("a shape is kept as long as a state has it"),
        }
    }

    /// Counts one state more of `shape`; its number, unless there are too many shapes.
    pub(super) fn take(&mut self, shape: &Arc<Shape>) -> Option<usize> {
        let number = self.number(shape)?;
        if let Some(Some(known)) = self.known.get_mut(number) {
            known.states += 1;
        }
        Some(number)
    }

    fn number(&mut self, shape: &Arc<Shape>) -> Option<usize> {
        let has = |known: &Option<Known>, id| known.as_ref().is_some_and(|known| known.shape.id() == id);
        if self.recent.number != usize::MAX && self.recent.id == shape.id() {
            return Some(self.recent.number);
        }
        let same = self.known.iter().position(|known| has(known, shape.id()));
        let number = same.or_else(|| {
            let known = Known { shape: Arc::clone(shape), states: 0 };
            let free = self.known.iter().position(Option::is_none);
            let number = free.unwrap_or(self.known.len());
            match free {
                Some(free) => self.known[free] = Some(known),
                None if number < MAX_SHAPES => self.known.push(Some(known)),
                None => return None,
            }
            Some(number)
        })?;
        self.recent = Recent { id: shape.id(), number };
        Some(number)
    }

    /// Counts one state less.
    pub(super) fn give_back(&mut self, number: usize) {
        if let Some(entry) = self.known.get_mut(number) {
            if let Some(known) = entry {
                known.states -= 1;
            }
            if entry.as_ref().is_some_and(|known| known.states == 0) {
                *entry = None;
                self.recent = Recent::default();
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.known.capacity() * size_of::<Option<Known>>()
    }
}
