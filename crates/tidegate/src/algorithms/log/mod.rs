//! [`Log`]: dated units, oldest first, in a few bytes for each entry.
//!
//! ```text
//!   oldest                                            newest
//!   [chunk][chunk][chunk] … [chunk]                    open
//!   closed entries, delta-coded                        units at the newest time
//! ```
//!
//! The entry at the newest time is open: it is not encoded yet. So all charges at one time (or in one bucket) are one
//! entry, and the most common refund changes nothing else. Closed entries are delta-coded in chunks ([`chunk`]). A short
//! log is one small chunk inside the struct. A long log is a queue of 256-byte blocks ([`blocks`]). Each block knows its
//! first time and the units before it, so a query is a binary search over blocks and a scan of one block. The owner of
//! the log stores the time of the newest charge and passes it in.
//!
//! Only [`Log::drop_until`] drops entries. A query about a later time changes nothing, because the next query may be
//! about an earlier time.

#![expect(clippy::cast_possible_truncation, reason = "lengths of at most 22 bytes")]

mod blocks;
mod chunk;

use blocks::Blocks;
use chunk::{Chunk, EncodedEntry, MAX_ENTRY};

use super::Recording;
use crate::timestamp::SATURATION;

/// Chosen so that a log, and every other [`LimitState`](super::LimitState), fits into one cache line.
const SHORT: usize = 22;

/// Dated units, oldest first; at most [`SATURATION`] in all.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    /// Units at the newest time.
    open: u64,
    /// Units of all closed entries.
    closed: u64,
    /// The time of the last closed entry.
    last: i64,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Short { first: i64, len: u8, bytes: [u8; SHORT] },
    Long(Box<Blocks>),
}

impl Log {
    pub(crate) fn new() -> Self {
        Self::with_newest(0)
    }

    /// A log of one entry, at the newest time.
    pub(crate) fn with_newest(units: u64) -> Self {
        Self { open: units, closed: 0, last: 0, body: Body::EMPTY }
    }

    /// The units at the newest time, if there is nothing else.
    pub(crate) fn only_newest(&self) -> Option<u64> {
        (self.closed == 0).then_some(self.open)
    }

    /// A log of `entries`, in order of time and none after `newest`.
    pub(crate) fn from_entries(entries: impl IntoIterator<Item = (i64, u64)>, newest: i64) -> Self {
        let mut log = Self::new();
        let mut last = i64::MIN;
        for (time, units) in entries {
            log.push(last, time, units, true);
            last = time;
        }
        log.push(last, newest, 0, true);
        log
    }

    /// Units at the newest time.
    pub(crate) fn units_at_newest(&self) -> u64 {
        self.open
    }

    /// Units dated after `horizon`.
    #[inline]
    pub(crate) fn units_after(&self, newest: i64, horizon: i64) -> u64 {
        if newest <= horizon {
            return 0;
        }
        self.open + self.closed - self.closed_until(horizon)
    }

    /// The time of the entry after whose expiry at most `level` of the units dated after `horizon` are left; `None` if
    /// at most `level` units are left already.
    #[inline]
    pub(crate) fn falls_to(&self, newest: i64, horizon: i64, level: u64) -> Option<i64> {
        if newest <= horizon {
            return None;
        }
        if level == 0 && self.open > 0 {
            return Some(newest);
        }
        let gone = self.closed_until(horizon);
        let used = self.open + self.closed - gone;
        if used <= level {
            return None;
        }
        let leaving = gone + (used - level);
        Some(if leaving <= self.closed { self.time_of_unit(leaving) } else { newest })
    }

    /// Drops the entries dated `horizon` or earlier.
    #[inline]
    pub(crate) fn drop_until(&mut self, newest: i64, horizon: i64) {
        if newest <= horizon {
            *self = Self::new();
            return;
        }
        if self.closed == 0 {
            return;
        }
        if self.last <= horizon {
            self.closed = 0;
            self.body = Body::EMPTY;
            return;
        }
        match &mut self.body {
            Body::Short { first, len, bytes } => {
                if *first > horizon {
                    return;
                }
                let chunk = Chunk::new(*first, &bytes[..usize::from(*len)]);
                let split = chunk.split_after(horizon);
                self.closed -= split.units;
                *first = split.time;
                bytes.copy_within(split.offset..usize::from(*len), 0);
                *len -= split.offset as u8;
            }
            Body::Long(blocks) => {
                self.closed -= blocks.drop_until(horizon);
                if let Some((first, few)) = blocks.few_bytes(SHORT / 2) {
                    let mut bytes = [0; SHORT];
                    bytes[..few.len()].copy_from_slice(few);
                    let len = few.len() as u8;
                    self.body = Body::Short { first, len, bytes };
                }
            }
        }
    }

    /// Adds `units` at `time`, which becomes the newest time. Without `room` it allocates nothing: if a new entry needs
    /// memory, the previous entry is joined with this one and dated `time`.
    #[inline]
    pub(crate) fn push(&mut self, newest: i64, time: i64, units: u64, room: bool) -> Recording {
        let units = units.min(SATURATION - self.open - self.closed);
        let mut recorded = Recording::Exact;
        if time > newest && self.open > 0 {
            if self.close(newest, room) {
                self.open = 0;
            } else {
                recorded = Recording::Joined;
            }
        }
        self.open += units;
        recorded
    }

    /// Encodes the open entry after the closed ones. Returns `false` if that needs memory and there is no room.
    #[inline]
    fn close(&mut self, newest: i64, room: bool) -> bool {
        if self.closed == 0 {
            self.last = newest;
            if let Body::Short { first, len, .. } = &mut self.body {
                (*first, *len) = (newest, 0);
            }
        }
        let (code, width) = EncodedEntry::encode((newest - self.last).cast_unsigned(), self.open);
        let code = &code[..width];
        match &mut self.body {
            Body::Short { first, len, bytes } => {
                let end = usize::from(*len) + width;
                if end <= SHORT {
                    bytes[usize::from(*len)..end].copy_from_slice(code);
                    *len = end as u8;
                } else if room {
                    let mut blocks = Blocks::new(*first, &bytes[..usize::from(*len)]);
                    blocks.append(newest, code, self.closed);
                    self.body = Body::Long(Box::new(blocks));
                } else {
                    return false;
                }
            }
            Body::Long(blocks) => {
                if !blocks.fits(width) && !room {
                    return false;
                }
                blocks.append(newest, code, self.closed);
            }
        }
        self.closed += self.open;
        self.last = newest;
        true
    }

    /// Removes up to `units` from the entry at exactly `time`. Returns the number of removed units.
    pub(crate) fn remove_units(&mut self, newest: i64, time: i64, units: u64) -> u64 {
        self.remove_each(newest, &[(time, units)])
    }

    /// Removes up to these units from the entries at exactly these times, which grow, in one pass. Returns the number of
    /// removed units.
    pub(crate) fn remove_each(&mut self, newest: i64, removals: &[(i64, u64)]) -> u64 {
        let (closed, open) = removals.split_at(removals.partition_point(|(time, _)| *time < newest));
        let given_back = open.iter().filter(|(time, _)| *time == newest).map(|(_, units)| units).sum();
        let from_open = self.open.min(given_back);
        self.open -= from_open;
        from_open + self.remove_closed(closed)
    }

    fn remove_closed(&mut self, removals: &[(i64, u64)]) -> u64 {
        let Some((last_time, _)) = removals.last().filter(|_| self.closed > 0) else { return 0 };
        let taken = match &mut self.body {
            Body::Short { first, len, bytes } => {
                let Some(reduced) = Chunk::new(*first, &bytes[..usize::from(*len)]).without(removals) else {
                    return 0;
                };
                bytes[..reduced.bytes.len()].copy_from_slice(&reduced.bytes);
                *len = reduced.bytes.len() as u8;
                *first = reduced.first;
                reduced.taken
            }
            Body::Long(blocks) => blocks.remove_each(removals),
        };
        self.closed -= taken;
        if self.closed == 0 {
            self.body = Body::EMPTY;
        } else if *last_time >= self.last {
            self.last = self.time_of_unit(self.closed);
        }
        taken
    }

    /// Moves every entry by `delta` microseconds.
    pub(crate) fn shift(&mut self, delta: i64) {
        self.last += delta;
        match &mut self.body {
            Body::Short { first, .. } => *first += delta,
            Body::Long(blocks) => blocks.shift(delta),
        }
    }

    /// All entries with at least one unit, oldest first.
    pub(crate) fn entries(&self, newest: i64) -> impl Iterator<Item = (i64, u64)> + '_ {
        let open = (self.open > 0).then_some((newest, self.open));
        (0..self.chunk_count()).flat_map(|i| self.chunk(i).entries()).chain(open)
    }

    /// The entries before `end` with at least one unit, newest first. It decodes no more chunks than are read.
    pub(crate) fn entries_newest_first(&self, newest: i64, end: i64) -> impl Iterator<Item = (i64, u64)> + '_ {
        let open = (self.open > 0).then_some((newest, self.open));
        let chunks = self.last_chunk_from(end.saturating_sub(1), self.chunk_count()).map_or(0, |last| last + 1);
        let closed = (0..chunks).rev().flat_map(|i| self.chunk(i).to_vec().into_iter().rev());
        open.into_iter().chain(closed).skip_while(move |(time, _)| *time >= end)
    }

    /// The units of the entries at exactly these times, which must not grow. It decodes each chunk at most once.
    pub(crate) fn units_at_each(&self, newest: i64, times: impl Iterator<Item = i64>) -> Vec<u64> {
        let mut decoded = (self.chunk_count(), Vec::new());
        let units_at = |time: i64| {
            if time >= newest {
                return if time == newest { self.open } else { 0 };
            }
            let Some(chunk) = self.last_chunk_from(time, decoded.0) else { return 0 };
            if chunk != decoded.0 {
                decoded.0 = chunk;
                decoded.1.clear();
                decoded.1.extend(self.chunk(chunk).entries());
            }
            let found = decoded.1.binary_search_by_key(&time, |entry: &(i64, u64)| entry.0);
            found.map_or(0, |i| decoded.1[i].1)
        };
        times.map(units_at).collect()
    }

    /// The last chunk that begins at `time` or earlier, among those up to the chunk `last`.
    fn last_chunk_from(&self, time: i64, last: usize) -> Option<usize> {
        let (mut low, mut high) = (0, self.chunk_count().min(last + 1));
        while low < high {
            let middle = low.midpoint(high);
            if self.chunk(middle).first() <= time { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1)
    }

    /// The time of the last entry before the newest time, if there is one.
    pub(crate) fn last_closed(&self) -> Option<i64> {
        (self.closed > 0).then_some(self.last)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.body {
            Body::Short { .. } => 0,
            Body::Long(blocks) => blocks.heap_bytes(),
        }
    }

    /// Units of closed entries dated `horizon` or earlier.
    #[inline]
    fn closed_until(&self, horizon: i64) -> u64 {
        if self.closed == 0 {
            return 0;
        }
        if self.last <= horizon {
            return self.closed;
        }
        match &self.body {
            Body::Short { first, .. } if *first > horizon => 0,
            Body::Short { .. } => self.chunk(0).split_after(horizon).units,
            Body::Long(blocks) => blocks.units_until(horizon),
        }
    }

    /// The time of the entry that contains the `nth` closed unit, counted from 1.
    #[inline]
    fn time_of_unit(&self, nth: u64) -> i64 {
        match &self.body {
            Body::Short { .. } => self.chunk(0).time_of_unit(nth),
            Body::Long(blocks) => blocks.time_of_unit(nth),
        }
    }

    fn chunk_count(&self) -> usize {
        match &self.body {
            _ if self.closed == 0 => 0,
            Body::Short { .. } => 1,
            Body::Long(blocks) => blocks.len(),
        }
    }

    #[inline]
    fn chunk(&self, index: usize) -> Chunk<'_> {
        match &self.body {
            Body::Short { first, len, bytes } => Chunk::new(*first, &bytes[..usize::from(*len)]),
            Body::Long(blocks) => blocks.chunk(index),
        }
    }
}

impl Body {
    const EMPTY: Self = Self::Short { first: 0, len: 0, bytes: [0; SHORT] };
}

const _: () = assert!(MAX_ENTRY <= SHORT, "an entry fits into an empty short log");
