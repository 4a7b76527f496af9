//! [`Layouts`]: the layouts of the states in one shard. Each has a small number that fits into the head of a slot.
//!
//! There can be more layouts than numbers. If no number is free, the layout of a state is in a map, keyed by the state's
//! id. So the layout of every state is always known. Callers are refused new layouts before the numbers run out.

use std::{collections::HashMap, sync::Arc};

use super::{
    id::Id,
    slot::{MAX_LAYOUTS, Slot},
};
use crate::layout::Layout;

/// The number of all layouts without their own number.
const UNNUMBERED: usize = MAX_LAYOUTS - 1;

/// Layouts by number. Each is stored as long as some state has it.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    /// The layout of the last new state, which is usually the layout of the next one, too.
    recent: Recent,
    known: Vec<Option<Known>>,
    /// The number of layouts with a number.
    numbered: usize,
    unnumbered: HashMap<Id, Unnumbered>,
    /// Bytes of the layouts that only this shard references.
    own_bytes: usize,
}

#[derive(Debug)]
struct Recent {
    id: u64,
    /// `usize::MAX` if there is none.
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
    layout: Arc<Layout>,
    states: usize,
    own_bytes: usize,
}

/// The layout of a state for which no number was free.
#[derive(Debug)]
struct Unnumbered {
    layout: Arc<Layout>,
    own_bytes: usize,
}

impl Layouts {
    /// Whether a state has the layout with this id.
    #[inline]
    pub(super) fn is(&self, slot: &Slot, id: u64) -> bool {
        (self.recent.number == slot.layout() && self.recent.id == id) || self.of(slot).id() == id
    }

    /// The layout of an existing state.
    pub(super) fn of(&self, slot: &Slot) -> &Arc<Layout> {
        match self.known.get(slot.layout()) {
            Some(Some(known)) => &known.layout,
            _ => self.unnumbered(slot.id),
        }
    }

    #[cold]
    #[inline(never)]
    fn unnumbered(&self, id: Id) -> &Arc<Layout> {
        match self.unnumbered.get(&id) {
            Some(unnumbered) => &unnumbered.layout,
            None => unreachable!("a layout is stored as long as a state has it"),
        }
    }

    /// Whether a state of `layout` can get a number.
    pub(super) fn has_number_for(&self, layout: &Layout) -> bool {
        self.numbered < UNNUMBERED || self.number_of(layout.id()).is_some()
    }

    /// Counts one more state of `layout`. Returns the number of the layout and the number of newly allocated bytes. With
    /// `owned`, nothing else references the layout, so its own bytes count.
    #[inline]
    pub(super) fn take(&mut self, id: Id, layout: &Arc<Layout>, owned: bool) -> (usize, usize) {
        if self.recent.number != usize::MAX
            && self.recent.id == layout.id()
            && let Some(Some(known)) = self.known.get_mut(self.recent.number)
        {
            known.states += 1;
            return (self.recent.number, 0);
        }
        let before = self.heap_bytes();
        let number = self.take_other(id, layout, owned);
        (number, self.heap_bytes() - before)
    }

    #[inline(never)]
    fn take_other(&mut self, id: Id, layout: &Arc<Layout>, owned: bool) -> usize {
        let number = self.number_of(layout.id()).or_else(|| self.new_number(layout, owned));
        let Some(number) = number else {
            let own_bytes = if owned { layout.heap_bytes() } else { 0 };
            self.own_bytes += own_bytes;
            self.unnumbered.insert(id, Unnumbered { layout: Arc::clone(layout), own_bytes });
            return UNNUMBERED;
        };
        if let Some(Some(known)) = self.known.get_mut(number) {
            known.states += 1;
        }
        self.recent = Recent { id: layout.id(), number };
        number
    }

    fn number_of(&self, id: u64) -> Option<usize> {
        if self.recent.number != usize::MAX && self.recent.id == id {
            return Some(self.recent.number);
        }
        self.known.iter().position(|known| known.as_ref().is_some_and(|known| known.id == id))
    }

    fn new_number(&mut self, layout: &Arc<Layout>, owned: bool) -> Option<usize> {
        if self.numbered == UNNUMBERED {
            return None;
        }
        let own_bytes = if owned { layout.heap_bytes() } else { 0 };
        let known = Some(Known { id: layout.id(), layout: Arc::clone(layout), states: 0, own_bytes });
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

    /// Counts one state less. Returns the number of freed bytes.
    pub(super) fn give_back(&mut self, slot: &Slot) -> usize {
        match self.known.get_mut(slot.layout()) {
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
        // A map has one more byte for each entry.
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
    fn the_bytes_of_layouts_without_a_number_are_counted() {
        let mut layouts = Layouts::default();
        let mut allocated = 0;
        let mut slots = Vec::new();
        for n in 0..MAX_LAYOUTS as u64 + 50 {
            let layout = Arc::new(Layout::new(Algorithm::SlidingLog, &[Limit::from_vector(1, 1_000_000 + n)]));
            let id = Id { order: n, rest: n };
            let (number, taken) = layouts.take(id, &layout, true);
            assert!(taken >= layout.heap_bytes(), "{n}");
            slots.push(Slot::new(id, number, 0));
            allocated += taken;
        }
        assert_eq!((layouts.numbered, allocated), (UNNUMBERED, layouts.heap_bytes()));
        for slot in &slots {
            allocated -= layouts.give_back(slot);
        }
        assert_eq!((layouts.numbered, layouts.own_bytes, allocated), (0, 0, layouts.heap_bytes()));
    }
}
