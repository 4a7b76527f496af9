//! [`Layout`]: the storage layout of a policy, and [`LimitSpec`]: the numbers of one limit.
//!
//! A limit on the units in open holds is not part of a layout, because its units are counted by the holds themselves.
//!
//! Policies with the same layout read each other's state as it is. A change of `max` or `burst` does not change the
//! layout, except for gcra, whose debt drains at `max` per window.

use std::{
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState},
    sync::LazyLock,
};

use crate::{
    algorithm::{Algorithm, AlgorithmKind},
    algorithms::LimitState,
    limit::Limit,
};

/// The index of the state of a limit that has none: no units of a window are in use.
pub(crate) const NO_STATE: usize = usize::MAX;

/// Keys the ids of layouts. Callers supply layouts, so nobody may be able to find two layouts with the same id.
static ID_KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The storage layout of a policy: everything that its stored state depends on.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    kind: AlgorithmKind,
    /// One grid for each limit with a window, in the policy's order.
    grids: Vec<Grid>,
    /// The limits with a window, without capacities, for functions that do not depend on them.
    bare_specs: Vec<LimitSpec>,
    longest_window: i64,
    /// Equal for equal layouts, within this process.
    id: u64,
}

/// The division of time by one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Grid {
    pub(crate) window: i64,
    /// 2^64 / window, rounded down. It replaces a division by a multiplication.
    reciprocal: u64,
    /// Buckets in a window; 1 for algorithms without buckets.
    pub(crate) buckets: i64,
    /// Units that drain from a debt in a window; 0 for algorithms without a debt.
    pub(crate) drain: u64,
}

impl Grid {
    /// `n / window`, rounded down.
    #[inline]
    pub(crate) fn windows_in(self, n: u64) -> u64 {
        let window = self.window.cast_unsigned();
        // The quotient is too small by at most one, because the reciprocal is too small by less than 1.
        let quotient = ((u128::from(n) * u128::from(self.reciprocal)) >> 64) as u64;
        quotient + u64::from(n - quotient * window >= window)
    }

    /// The start of the aligned window that contains `t`. `t` is never before the epoch.
    #[inline]
    pub(crate) fn start(self, t: i64) -> i64 {
        self.windows_in(t.cast_unsigned()).cast_signed() * self.window
    }
}

/// The numbers of one limit as the arithmetic needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitSpec {
    pub(crate) grid: Grid,
    /// The maximum number of units in use.
    pub(crate) capacity: u64,
    /// The index of the [`LimitState`] of this limit. The limits of a log share one state. A limit on the units in open
    /// holds has none.
    pub(crate) state: usize,
    /// The longest window of the policy. A shared log covers it.
    pub(crate) longest_window: i64,
}

impl LimitSpec {
    /// A limit on the units in open holds.
    pub(crate) fn in_flight(capacity: u64) -> Self {
        let grid = Grid { window: 0, reciprocal: 0, buckets: 1, drain: 0 };
        Self { grid, capacity, state: NO_STATE, longest_window: 0 }
    }

    /// Whether it limits the units in open holds.
    #[inline]
    pub(crate) fn is_in_flight(&self) -> bool {
        self.grid.window == 0
    }
}

impl Layout {
    pub(crate) fn new(algorithm: Algorithm, limits: &[Limit]) -> Self {
        let kind = algorithm.kind();
        let grid = |limit: &Limit| Grid {
            window: limit.window_us().cast_signed(),
            reciprocal: u64::MAX / limit.window_us(),
            buckets: match algorithm {
                Algorithm::SlidingBuckets(n) => n.get().cast_signed(),
                _ => 1,
            },
            drain: match algorithm {
                Algorithm::Gcra(_) => limit.max(),
                _ => 0,
            },
        };
        let grids: Vec<Grid> = limits.iter().filter(|limit| !limit.is_in_flight()).map(grid).collect();
        let mut layout = Self {
            kind,
            bare_specs: Vec::new(),
            longest_window: grids.iter().map(|grid| grid.window).max().unwrap_or(0),
            id: id(kind, &grids),
            grids,
        };
        layout.bare_specs = layout.specs(std::iter::repeat(0));
        layout
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn kind(&self) -> AlgorithmKind {
        self.kind
    }

    pub(crate) fn grids(&self) -> &[Grid] {
        &self.grids
    }

    /// The longest window of the limits.
    pub(crate) fn longest_window(&self) -> i64 {
        self.longest_window
    }

    /// The limits with a window, without capacities.
    pub(crate) fn bare_specs(&self) -> &[LimitSpec] {
        &self.bare_specs
    }

    /// The number of [`LimitState`]s: the limits of a log share one.
    pub(crate) fn state_count(&self) -> usize {
        match self.kind {
            AlgorithmKind::Log => 1,
            _ => self.grids.len(),
        }
    }

    /// A [`LimitState`] in which no units are in use.
    pub(crate) fn empty_state(&self) -> LimitState {
        LimitState::empty(self.kind)
    }

    /// The limits with a window, with the given capacities.
    pub(crate) fn specs(&self, capacities: impl Iterator<Item = u64>) -> Vec<LimitSpec> {
        let spec = |(i, (grid, capacity)): (usize, (&Grid, u64))| LimitSpec {
            grid: *grid,
            capacity,
            state: if self.kind == AlgorithmKind::Log { 0 } else { i },
            longest_window: self.longest_window,
        };
        self.grids.iter().zip(capacities).enumerate().map(spec).collect()
    }

    /// The bytes of the layout, itself included.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.grids) + size_of_val(&*self.bare_specs)
    }

    /// The algorithm and the windows, in any order: the identity of limits without a policy name. A limit on the units in
    /// open holds is a window of 0. Stored keys contain this text, so it must never change.
    pub(crate) fn description(&self, has_in_flight: bool) -> String {
        let mut windows: Vec<_> = self.grids.iter().map(|grid| (grid.window, grid.buckets)).collect();
        windows.extend(has_in_flight.then_some((0, 1)));
        windows.sort_unstable();
        format!("{:?} {windows:?}", self.kind)
    }
}

fn id(kind: AlgorithmKind, grids: &[Grid]) -> u64 {
    // The model checker needs deterministic runs.
    if cfg!(tidegate_shuttle) {
        return BuildHasherDefault::<DefaultHasher>::default().hash_one((kind, grids));
    }
    ID_KEYS.hash_one((kind, grids))
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use super::Layout;
    use crate::{Algorithm, Limit};

    #[test]
    fn the_id_of_a_layout_cannot_be_computed_outside_the_process() {
        let layout = || Layout::new(Algorithm::SlidingLog, &[Limit::from_vector(1, 60_000_000)]);
        let keyless = BuildHasherDefault::<DefaultHasher>::default();
        assert_eq!(layout().id(), layout().id());
        assert_ne!(layout().id(), keyless.hash_one((layout().kind(), layout().grids())));
    }

    #[test]
    fn multiplying_by_the_reciprocal_divides_exactly() {
        for window in [1000, 1001, 1024, 999_983, 1 << 20, 60_000_000, 1 << 40, 86_400_000_000, 31_622_400_000_000] {
            let limits = [Limit::from_vector(1, window)];
            let grid = Layout::new(Algorithm::SlidingLog, &limits).grids()[0];
            let multiples = [0, 1, 2, 3, 1000, 1 << 10, u64::MAX / window - 1, u64::MAX / window];
            let near = |multiple: u64| {
                (0..3)
                    .flat_map(move |by| [(multiple * window).wrapping_sub(by), (multiple * window).saturating_add(by)])
            };
            for n in multiples.into_iter().flat_map(near).chain([u64::MAX, u64::MAX - 1, 9_000_000_000_000_000_000]) {
                assert_eq!(grid.windows_in(n), n / window, "{n} / {window}");
            }
        }
    }
}
