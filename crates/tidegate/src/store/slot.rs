//! [`Slot`]: the 32 bytes that most states fit into.
//!
//! Sixteen bytes of id, eight of head (the time of the newest charge, the shape, whether the state is held elsewhere) and
//! eight of body: two counters of 32 bits, one of 64, a debt below 2^64, the units of a log that has one entry, or the number
//! of the place where a larger state is held.

#![expect(clippy::cast_possible_truncation, reason = "numbers that were put in as usize")]

use super::id::Id;
use crate::{
    shape::Kind,
    tracks::{Track, fixed_window::Count, gcra::Debt, log::Log, sliding_counter::Counts},
};

const TIME_BITS: u32 = 53;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
const HELD: u64 = 1 << TIME_BITS;
const SHAPE_SHIFT: u32 = TIME_BITS + 1;

/// The most shapes a head can tell apart.
pub(super) const MAX_SHAPES: usize = 1 << (64 - SHAPE_SHIFT);

/// One key's place in the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) id: Id,
    head: u64,
    pub(super) body: u64,
}

impl Slot {
    pub(super) const EMPTY: Self = Self { id: Id { order: u64::MAX, rest: u64::MAX }, head: 0, body: 0 };

    pub(super) fn new(id: Id, shape: usize, newest: i64) -> Self {
        let mut slot = Self { id, head: 0, body: 0 };
        slot.set_shape(shape);
        slot.set_newest(newest);
        slot
    }

    pub(super) fn is_empty(&self) -> bool {
        self.id.order == u64::MAX
    }

    /// The time of the newest charge.
    #[inline]
    pub(super) fn newest(&self) -> i64 {
        (self.head & TIME_MASK).cast_signed()
    }

    #[inline]
    pub(super) fn set_newest(&mut self, time: i64) {
        self.head = self.head & !TIME_MASK | time.cast_unsigned() & TIME_MASK;
    }

    /// The number of the state's shape in its shard.
    #[inline]
    pub(super) fn shape(&self) -> usize {
        (self.head >> SHAPE_SHIFT) as usize
    }

    pub(super) fn set_shape(&mut self, shape: usize) {
        self.head = self.head & (HELD | TIME_MASK) | (shape as u64) << SHAPE_SHIFT;
    }

    /// Where the state is held, if it doesn't fit in here.
    #[inline]
    pub(super) fn held(&self) -> Option<usize> {
        (self.head & HELD != 0).then_some(self.body as usize)
    }

    pub(super) fn set_held(&mut self, place: usize) {
        self.head |= HELD;
        self.body = place as u64;
    }

    #[inline]
    pub(super) fn set_packed(&mut self, body: u64) {
        self.head &= !HELD;
        self.body = body;
    }

    /// The state that is in here, for a shape of one track.
    #[inline]
    pub(super) fn unpack(&self, kind: Kind) -> Track {
        match kind {
            Kind::Fixed => Track::Fixed(Count(self.body)),
            Kind::Counter => {
                Track::Counter(Counts { current: self.body >> 32, previous: self.body & u64::from(u32::MAX) })
            }
            Kind::Gcra => Track::Gcra(Debt::new(self.body.into())),
            Kind::Log => Track::Log(Log::of_newest(self.body)),
            Kind::Buckets => Track::Buckets(Log::of_newest(self.body)),
        }
    }
}

/// What [`Slot::unpack`] reads, if the state is small enough.
#[inline]
pub(super) fn pack(track: &Track) -> Option<u64> {
    match track {
        Track::Fixed(count) => Some(count.0),
        Track::Counter(Counts { current, previous }) => {
            let fits = (current | previous) >> 32 == 0;
            fits.then_some(current << 32 | previous)
        }
        Track::Gcra(debt) => u64::try_from(debt.unit_micros()).ok(),
        Track::Log(log) | Track::Buckets(log) => log.only_newest(),
    }
}

const _: () = assert!(size_of::<Slot>() == 32);
