//! [`LargeStates`]: the states that do not fit into a 32-byte slot.

use crate::limit_states::LimitStates;

/// The number of cells that are allocated at once when few bytes are left.
const SPARING: usize = 4;

/// Numbered cells for large states.
#[derive(Debug, Default)]
pub(super) struct LargeStates {
    cells: Vec<Cell>,
    /// The first free cell. Free cells are a linked list.
    free: Option<usize>,
}

/// A cell of one cache line. It wraps the content, because an enum with an alignment has no niche and would be larger.
#[derive(Debug)]
#[repr(align(64))]
struct Cell(Content);

#[derive(Debug)]
enum Content {
    Used(LimitStates),
    Free { next: Option<usize> },
}

const MISSING: &str = "a slot has the number of the cell with its state";

impl LargeStates {
    /// The size of a cell.
    pub(super) const CELL_BYTES: usize = size_of::<Cell>();

    pub(super) fn get(&self, cell: usize) -> &LimitStates {
        match self.cells.get(cell) {
            Some(Cell(Content::Used(states))) => states,
            _ => unreachable!("{MISSING}"),
        }
    }

    pub(super) fn get_mut(&mut self, cell: usize) -> &mut LimitStates {
        match self.cells.get_mut(cell) {
            Some(Cell(Content::Used(states))) => states,
            _ => unreachable!("{MISSING}"),
        }
    }

    /// Stores a state and returns the number of its cell. With `sparing`, only a few cells are allocated at once.
    pub(super) fn put(&mut self, states: LimitStates, sparing: bool) -> usize {
        let Some(cell) = self.free else {
            if self.cells.len() == self.cells.capacity() {
                self.cells.reserve_exact(if sparing { SPARING } else { 1 + self.cells.len() / 4 });
            }
            self.cells.push(Cell(Content::Used(states)));
            return self.cells.len() - 1;
        };
        if let Content::Free { next } = self.cells[cell].0 {
            self.free = next;
        }
        self.cells[cell].0 = Content::Used(states);
        cell
    }

    pub(super) fn take(&mut self, cell: usize) -> LimitStates {
        let free = Content::Free { next: self.free };
        match std::mem::replace(&mut self.cells[cell].0, free) {
            Content::Used(states) => {
                self.free = Some(cell);
                states
            }
            Content::Free { .. } => unreachable!("{MISSING}"),
        }
    }

    /// The bytes that storing another state may allocate: 0 if a cell is free.
    pub(super) fn bytes_to_put(&self) -> usize {
        if self.free.is_some() || self.cells.len() < self.cells.capacity() {
            0
        } else {
            (1 + self.cells.len() / 4) * Self::CELL_BYTES
        }
    }

    /// The bytes of the cells themselves. The allocations of a state are counted with the state.
    pub(super) fn heap_bytes(&self) -> usize {
        self.cells.capacity() * Self::CELL_BYTES
    }
}

const _: () = assert!(LargeStates::CELL_BYTES == 64);
