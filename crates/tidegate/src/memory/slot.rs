//! [`Slot`]: the 32 bytes that most states fit into.
//!
//! A slot has sixteen bytes of id, eight of head and eight of body. The head contains the time of the newest charge, the
//! number of the layout, and whether the state is a large state. The body contains two counters of 32 bits, one counter of
//! 64 bits, a debt below 2^64, the units of a log with one entry, or the number of the large state's cell.

#![expect(clippy::cast_possible_truncation, reason = "the numbers were stored as usize")]

use super::id::Id;
use crate::{
    algorithm::AlgorithmKind,
    algorithms::{
        Action, LimitState, fixed_window::WindowCount, gcra::Debt, log::Log, sliding_buckets,
        sliding_counter::WindowCounts, sliding_log,
    },
    layout::LimitSpec,
};

const TIME_BITS: u32 = 53;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
const LARGE: u64 = 1 << TIME_BITS;
const LAYOUT_SHIFT: u32 = TIME_BITS + 1;

/// The number of layouts that a head can distinguish.
pub(super) const MAX_LAYOUTS: usize = 1 << (64 - LAYOUT_SHIFT);

/// The entry of one key in the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) id: Id,
    head: u64,
    pub(super) body: u64,
}

impl Slot {
    pub(super) const EMPTY: Self = Self { id: Id { order: u64::MAX, rest: u64::MAX }, head: 0, body: 0 };

    pub(super) fn new(id: Id, layout: usize, newest: i64) -> Self {
        let mut slot = Self { id, head: 0, body: 0 };
        slot.set_layout(layout);
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

    /// The number of the state's layout in its shard.
    #[inline]
    pub(super) fn layout(&self) -> usize {
        (self.head >> LAYOUT_SHIFT) as usize
    }

    pub(super) fn set_layout(&mut self, layout: usize) {
        self.head = self.head & (LARGE | TIME_MASK) | (layout as u64) << LAYOUT_SHIFT;
    }

    /// The cell of the state, if it does not fit into the slot.
    #[inline]
    pub(super) fn large_state(&self) -> Option<usize> {
        (self.head & LARGE != 0).then_some(self.body as usize)
    }

    pub(super) fn set_large(&mut self, cell: usize) {
        self.head |= LARGE;
        self.body = cell as u64;
    }

    #[inline]
    pub(super) fn set_packed(&mut self, body: u64) {
        self.head &= !LARGE;
        self.body = body;
    }

    /// The state in the slot, for a layout with one state.
    pub(super) fn unpack(&self, kind: AlgorithmKind) -> LimitState {
        match kind {
            AlgorithmKind::Fixed => LimitState::Fixed(WindowCount(self.body)),
            AlgorithmKind::Counter => LimitState::Counter(counts(self.body)),
            AlgorithmKind::Gcra => LimitState::Gcra(Debt::new(self.body.into())),
            AlgorithmKind::Log => LimitState::Log(Log::with_newest(self.body)),
            AlgorithmKind::Buckets => LimitState::Buckets(Log::with_newest(self.body)),
        }
    }

    /// Applies `action` to the state in the slot at `t`, and stores the result if it charged. Returns the state if it no
    /// longer fits into the slot.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the output stays in registers, which saves a third of a decision's time")]
    pub(super) fn apply<A: Action>(
        &mut self,
        kind: AlgorithmKind,
        spec: &LimitSpec,
        t: i64,
        action: A,
    ) -> (A::Output, Option<LimitState>) {
        let LimitSpec { grid, longest_window, .. } = *spec;
        let newest = self.newest();
        match kind {
            AlgorithmKind::Fixed => {
                let mut at = WindowCount(self.body).at(grid, newest, t);
                let (output, charged) = action.apply(&mut at);
                (output, self.store(charged, t, || Ok(at.count().0)))
            }
            AlgorithmKind::Counter => {
                let mut at = counts(self.body).at(grid, newest, t);
                let (output, charged) = action.apply(&mut at);
                let packed = || pack_counts(at.counts()).ok_or(LimitState::Counter(at.counts()));
                (output, self.store(charged, t, packed))
            }
            AlgorithmKind::Gcra => {
                let mut at = Debt::new(self.body.into()).at(grid, newest, t);
                let (output, charged) = action.apply(&mut at);
                let packed = || u64::try_from(at.debt().unit_micros()).map_err(|_| LimitState::Gcra(at.debt()));
                (output, self.store(charged, t, packed))
            }
            AlgorithmKind::Log => {
                let mut log = Log::with_newest(self.body);
                let mut at = sliding_log::LogAt { log: &mut log, window: grid.window, longest_window, newest, t };
                let (output, charged) = action.apply(&mut at);
                (output, self.store(charged, t, || log.only_newest().ok_or(LimitState::Log(log))))
            }
            AlgorithmKind::Buckets => {
                let mut log = Log::with_newest(self.body);
                let (output, charged) = action.apply(&mut sliding_buckets::BucketsAt::new(&mut log, grid, newest, t));
                (output, self.store(charged, t, || log.only_newest().ok_or(LimitState::Buckets(log))))
            }
        }
    }

    #[inline]
    fn store(&mut self, charged: bool, t: i64, packed: impl FnOnce() -> Result<u64, LimitState>) -> Option<LimitState> {
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

/// The body that [`Slot::unpack`] reads, if the state is small enough.
pub(super) fn pack(state: &LimitState) -> Option<u64> {
    match state {
        LimitState::Fixed(count) => Some(count.0),
        LimitState::Counter(counts) => pack_counts(*counts),
        LimitState::Gcra(debt) => u64::try_from(debt.unit_micros()).ok(),
        LimitState::Log(log) | LimitState::Buckets(log) => log.only_newest(),
    }
}

const _: () = assert!(size_of::<Slot>() == 32);
