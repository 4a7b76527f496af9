//! The closed entries of a long log: a queue of 256-byte blocks.

#![expect(clippy::cast_possible_truncation, reason = "offsets within 256 bytes")]

use std::collections::VecDeque;

use super::chunk::Chunk;

const BLOCK_BYTES: usize = 236;

/// Blocks of entries, oldest first. There is always at least one block.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    queue: VecDeque<Box<Block>>,
}

#[derive(Debug, Clone)]
struct Block {
    /// The time of the first remaining entry.
    first: i64,
    /// Units before that entry since the log was created. It wraps around, so only differences have a meaning.
    before: u64,
    /// The range of the bytes of the remaining entries.
    start: u16,
    end: u16,
    bytes: [u8; BLOCK_BYTES],
}

impl Block {
    fn new(first: i64, before: u64, code: &[u8]) -> Box<Self> {
        let mut block = Box::new(Self { first, before, start: 0, end: 0, bytes: [0; BLOCK_BYTES] });
        block.append(code);
        block
    }

    #[inline]
    fn append(&mut self, code: &[u8]) {
        let end = usize::from(self.end) + code.len();
        self.bytes[usize::from(self.end)..end].copy_from_slice(code);
        self.end = end as u16;
    }

    #[inline]
    fn chunk(&self) -> Chunk<'_> {
        Chunk::new(self.first, &self.bytes[self.start.into()..self.end.into()])
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

impl Blocks {
    pub(super) fn new(first: i64, code: &[u8]) -> Self {
        let mut queue = VecDeque::with_capacity(4);
        queue.push_back(Block::new(first, 0, code));
        Self { queue }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    #[inline]
    pub(super) fn chunk(&self, index: usize) -> Chunk<'_> {
        self.queue[index].chunk()
    }

    /// Whether `width` more bytes fit without another block.
    pub(super) fn fits(&self, width: usize) -> bool {
        self.queue.back().is_some_and(|block| usize::from(block.end) + width <= BLOCK_BYTES)
    }

    /// Appends an entry. `closed` is the number of units so far.
    #[inline]
    pub(super) fn append(&mut self, time: i64, code: &[u8], closed: u64) {
        match self.queue.back_mut() {
            Some(block) if usize::from(block.end) + code.len() <= BLOCK_BYTES => {
                if block.is_empty() {
                    block.first = time;
                }
                block.append(code);
            }
            _ => {
                let before = self.queue.front().map_or(0, |front| front.before.wrapping_add(closed));
                self.queue.push_back(Block::new(time, before, code));
            }
        }
    }

    /// Drops the entries dated `horizon` or earlier. Returns the number of dropped units. At least one later entry must
    /// exist.
    #[inline]
    pub(super) fn drop_until(&mut self, horizon: i64) -> u64 {
        if self.queue[0].first > horizon {
            return 0;
        }
        let before = self.queue[0].before;
        let whole = self.last_from(|block| block.first <= horizon);
        self.queue.drain(..whole);
        let front = &mut self.queue[0];
        let split = front.chunk().split_after(horizon);
        front.before = front.before.wrapping_add(split.units);
        front.start += split.offset as u16;
        front.first = split.time;
        if front.is_empty() {
            self.queue.pop_front();
        }
        self.queue[0].before.wrapping_sub(before)
    }

    /// Units dated `horizon` or earlier.
    #[inline]
    pub(super) fn units_until(&self, horizon: i64) -> u64 {
        let front = &self.queue[0];
        if front.first > horizon {
            return 0;
        }
        let block = &self.queue[self.last_from(|block| block.first <= horizon)];
        block.before.wrapping_sub(front.before) + block.chunk().split_after(horizon).units
    }

    /// The time of the entry that contains the `nth` unit, counted from 1.
    #[inline]
    pub(super) fn time_of_unit(&self, nth: u64) -> i64 {
        let base = self.queue[0].before;
        let block = &self.queue[self.last_from(|block| block.before.wrapping_sub(base) < nth)];
        block.chunk().time_of_unit(nth - block.before.wrapping_sub(base))
    }

    /// Removes up to these units from the entries at exactly these times, which grow. Returns the number of removed units.
    /// If it removes all, no block is left.
    pub(super) fn remove_each(&mut self, mut removals: &[(i64, u64)]) -> u64 {
        let Some((first, _)) = removals.first() else { return 0 };
        let start = self.last_from(|block| block.first <= *first);
        let (mut taken, mut has_emptied) = (0, false);
        for index in start..self.queue.len() {
            if removals.is_empty() && taken == 0 {
                break;
            }
            let next = self.queue.get(index + 1).map_or(i64::MAX, |next| next.first);
            let (here, later) = removals.split_at(removals.partition_point(|(time, _)| *time < next));
            removals = later;
            let block = &mut self.queue[index];
            block.before = block.before.wrapping_sub(taken);
            if !here.is_empty()
                && let Some(reduced) = block.chunk().without(here)
            {
                block.first = reduced.first;
                (block.start, block.end) = (0, 0);
                block.append(&reduced.bytes);
                has_emptied |= block.is_empty();
                taken += reduced.taken;
            }
        }
        if has_emptied {
            self.queue.retain(|block| !block.is_empty());
        }
        taken
    }

    pub(super) fn shift(&mut self, delta: i64) {
        for block in &mut self.queue {
            block.first += delta;
        }
    }

    /// The first time and the bytes, if there are at most `few` bytes.
    #[inline]
    pub(super) fn few_bytes(&self, few: usize) -> Option<(i64, &[u8])> {
        let block = &self.queue[0];
        let bytes = &block.bytes[block.start.into()..block.end.into()];
        (self.queue.len() == 1 && bytes.len() <= few).then_some((block.first, bytes))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.queue.len() * size_of::<Block>() + self.queue.capacity() * size_of::<Box<Block>>()
    }

    /// The last block for which `is_before` is true. It must be true for a prefix of the blocks that contains the first
    /// one. Most queries end at the first block.
    #[inline]
    fn last_from(&self, is_before: impl Fn(&Block) -> bool) -> usize {
        match self.queue.get(1) {
            Some(second) if is_before(second) => self.queue.partition_point(|block| is_before(block)) - 1,
            _ => 0,
        }
    }
}

const _: () = assert!(size_of::<Block>() == 256);
