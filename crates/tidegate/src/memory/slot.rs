//! [`Slot`]: the 32 bytes that most states fit into.
//!
//! Sixteen bytes of id, eight of head (the time of the newest charge, the shape, whether the state is held elsewhere) and
//! eight of body: two counters of 32 bits, one of 64, a debt below 2^64, the units of a log that has one entry, or the number
//! of the place where a larger state is held.

#![expect(clippy::cast_possible_truncation, reason = "numbers that were put in as usize")]

use super::id::Id;
use crate::{
    algorithms::{
        Action, LimitState, fixed_window::WindowCount, gcra::Debt, log::Log, sliding_buckets,
        sliding_counter::WindowCounts, sliding_log,
    },
    shape::{Kind, Rule},
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

    /// The state that is in here, for a shape of one state.
    pub(super) fn unpack(&self, kind: Kind) -> LimitState {
        match kind {
            Kind::Fixed => LimitState::Fixed(WindowCount(self.body)),
            Kind::Counter => LimitState::Counter(counts(self.body)),
            Kind::Gcra => LimitState::Gcra(Debt::new(self.body.into())),
            Kind::Log => LimitState::Log(Log::with_newest(self.body)),
            Kind::Buckets => LimitState::Buckets(Log::with_newest(self.body)),
        }
    }

    /// Shows the state that is in here, as it stands at `t`, to a action, and keeps it if it was charged. A state that
    /// no longer fits in here comes back.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "what the action finds stays in registers: a third of a decision's time")]
    pub(super) fn apply<A: Action>(
        &mut self,
        kind: Kind,
        rule: &Rule,
        t: i64,
        action: A,
    ) -> (A::Output, Option<LimitState>) {
        let Rule { grid, longest, .. } = *rule;
        let newest = self.newest();
        match kind {
            Kind::Fixed => {
                let mut at = WindowCount(self.body).at(grid, newest, t);
                let (output, charged) = action.apply(&mut at);
                (output, self.keep(charged, t, || Ok(at.count().0)))
            }
            Kind::Counter => {
                let mut at = counts(self.body).at(grid, newest, t);
                let (output, charged) = action.apply(&mut at);
                let packed = || pack_counts(at.counts()).ok_or(LimitState::Counter(at.counts()));
                (output, self.keep(charged, t, packed))
            }
            Kind::Gcra => {
                let mut at = Debt::new(self.body.into()).at(grid, newest, t);
                let (output, charged) = action.apply(&mut at);
                let packed = || u64::try_from(at.debt().unit_micros()).map_err(|_| LimitState::Gcra(at.debt()));
                (output, self.keep(charged, t, packed))
            }
            Kind::Log => {
                let mut log = Log::with_newest(self.body);
                let mut at = sliding_log::LogAt { log: &mut log, window: grid.window, longest, newest, t };
                let (output, charged) = action.apply(&mut at);
                (output, self.keep(charged, t, || log.only_newest().ok_or(LimitState::Log(log))))
            }
            Kind::Buckets => {
                let mut log = Log::with_newest(self.body);
                let (output, charged) = action.apply(&mut sliding_buckets::BucketsAt::new(&mut log, grid, newest, t));
                (output, self.keep(charged, t, || log.only_newest().ok_or(LimitState::Buckets(log))))
            }
        }
    }

    #[inline]
    fn keep(&mut self, charged: bool, t: i64, packed: impl FnOnce() -> Result<u64, LimitState>) -> Option<LimitState> {
        if !charged {
            return None;
        }
        self.set_newest(t);
        match packed() {
            Ok(body) => {
                self.body = body;
                None
            }
            Err(state) => Some(state),
        }
    }
}

fn counts(body: u64) -> WindowCounts {
    WindowCounts { current: body >> 32, previous: body & u64::from(u32::MAX) }
}

fn pack_counts(WindowCounts { current, previous }: WindowCounts) -> Option<u64> {
    ((current | previous) >> 32 == 0).then_some(current << 32 | previous)
}

/// What [`Slot::unpack`] reads, if the state is small enough.
pub(super) fn pack(state: &LimitState) -> Option<u64> {
    match state {
        LimitState::Fixed(count) => Some(count.0),
        LimitState::Counter(counts) => pack_counts(*counts),
        LimitState::Gcra(debt) => u64::try_from(debt.unit_micros()).ok(),
        LimitState::Log(log) | LimitState::Buckets(log) => log.only_newest(),
    }
}

const _: () = assert!(size_of::<Slot>() == 32);
