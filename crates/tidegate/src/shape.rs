//! What of a policy its stored state depends on ([`Shape`]), and what each limit's arithmetic needs ([`Rule`]).
//!
//! Two policies of one shape read each other's state as it is. A change of `max` or `burst` is no change of shape,
//! but for gcra, whose debt drains at `max` a window.

use std::{
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState},
    sync::LazyLock,
};

use crate::{algorithm::Algorithm, algorithms::LimitState, limit::Limit};

/// Keys the ids of shapes. Callers bring shapes, so nobody may be able to find two that share an id.
static ID_KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The form in which a policy's state is kept.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    kind: Kind,
    /// One for each limit, in the policy's order.
    grids: Vec<Grid>,
    /// The rules of a policy without capacity, for questions that don't ask what fits.
    bare_rules: Vec<Rule>,
    longest: i64,
    /// Equal for equal shapes, within this process.
    id: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Log,
    Counter,
    Buckets,
    Fixed,
    Gcra,
}

/// How one limit divides time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Grid {
    pub(crate) window: i64,
    /// 2^64 by the window, rounded down: a multiplication in place of a division.
    reciprocal: u64,
    /// Buckets in a window; 1 for algorithms without.
    pub(crate) buckets: i64,
    /// Units that drain from a debt in a window; 0 for algorithms without.
    pub(crate) drain: u64,
}

impl Grid {
    /// `n` by the window, rounded down.
    #[inline]
    pub(crate) fn windows_in(self, n: u64) -> u64 {
        let window = self.window.cast_unsigned();
        // Too small by one at the most, since what the reciprocal lacks is less than one part in 2^64 of `n`.
        let quotient = ((u128::from(n) * u128::from(self.reciprocal)) >> 64) as u64;
        quotient + u64::from(n - quotient * window >= window)
    }

    /// The beginning of the aligned window that holds `t`, which is not before the epoch.
    #[inline]
    pub(crate) fn start(self, t: i64) -> i64 {
        self.windows_in(t.cast_unsigned()).cast_signed() * self.window
    }
}

/// One limit as the arithmetic sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) grid: Grid,
    /// The most units that can be in use at once.
    pub(crate) capacity: u64,
    /// Which state of the state counts for this limit: the limits of a log share one.
    pub(crate) state: usize,
    /// The longest window of the policy, for as long as which a shared log is kept.
    pub(crate) longest: i64,
}

impl Shape {
    pub(crate) fn new(algorithm: Algorithm, limits: &[Limit]) -> Self {
        let kind = match algorithm {
            Algorithm::SlidingLog => Kind::Log,
            Algorithm::SlidingCounter => Kind::Counter,
            Algorithm::SlidingBuckets(_) => Kind::Buckets,
            Algorithm::FixedWindow => Kind::Fixed,
            Algorithm::Gcra(_) => Kind::Gcra,
        };
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
        let grids: Vec<Grid> = limits.iter().map(grid).collect();
        let mut shape = Self {
            kind,
            bare_rules: Vec::new(),
            longest: grids.iter().map(|grid| grid.window).max().unwrap_or(0),
            id: id(kind, &grids),
            grids,
        };
        shape.bare_rules = shape.rules(std::iter::repeat(0));
        shape
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn grids(&self) -> &[Grid] {
        &self.grids
    }

    /// The longest window of the limits.
    pub(crate) fn longest(&self) -> i64 {
        self.longest
    }

    /// The rules of this shape without capacities.
    pub(crate) fn bare_rules(&self) -> &[Rule] {
        &self.bare_rules
    }

    /// How many states the state has: the limits of a log share one.
    pub(crate) fn states(&self) -> usize {
        match self.kind {
            Kind::Log => 1,
            _ => self.grids.len(),
        }
    }

    /// A state in which nothing is in use.
    pub(crate) fn empty_state(&self) -> LimitState {
        LimitState::empty(self.kind)
    }

    /// The rules of a policy of this shape with the capacities given, one for each limit.
    pub(crate) fn rules(&self, capacities: impl Iterator<Item = u64>) -> Vec<Rule> {
        let rule = |(i, (grid, capacity)): (usize, (&Grid, u64))| Rule {
            grid: *grid,
            capacity,
            state: if self.kind == Kind::Log { 0 } else { i },
            longest: self.longest,
        };
        self.grids.iter().zip(capacities).enumerate().map(rule).collect()
    }

    /// What it takes, itself included.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.grids) + size_of_val(&*self.bare_rules)
    }

    /// What callers who bring the same limits share: the algorithm and the windows, in any order.
    pub(crate) fn describe(&self) -> String {
        let mut windows: Vec<_> = self.grids.iter().map(|grid| (grid.window, grid.buckets)).collect();
        windows.sort_unstable();
        format!("{:?} {windows:?}", self.kind)
    }
}

fn id(kind: Kind, grids: &[Grid]) -> u64 {
    // The model checker needs every run to go the same way.
    if cfg!(tidegate_shuttle) {
        return BuildHasherDefault::<DefaultHasher>::default().hash_one((kind, grids));
    }
    ID_KEYS.hash_one((kind, grids))
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use super::Shape;
    use crate::{Algorithm, Limit};

    #[test]
    fn the_id_of_a_shape_cannot_be_computed_outside_the_process() {
        let shape = || Shape::new(Algorithm::SlidingLog, &[Limit::from_vector(1, 60_000_000)]);
        let keyless = BuildHasherDefault::<DefaultHasher>::default();
        assert_eq!(shape().id(), shape().id());
        assert_ne!(shape().id(), keyless.hash_one((shape().kind(), shape().grids())));
    }

    #[test]
    fn multiplying_by_the_reciprocal_divides_exactly() {
        for window in [1000, 1001, 1024, 999_983, 1 << 20, 60_000_000, 1 << 40, 86_400_000_000, 31_622_400_000_000] {
            let limits = [Limit::from_vector(1, window)];
            let grid = Shape::new(Algorithm::SlidingLog, &limits).grids()[0];
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
