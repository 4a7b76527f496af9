//! [`Cost`]: the units that one request spends.

/// The units that one request spends: 1 to 10^12.
///
/// A cost of 0 does not exist. To read the state without spending, use [`peek`](crate::Limiter::peek).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

impl Cost {
    /// One unit, the cost of an ordinary request.
    pub const ONE: Self = Self(1);

    /// The largest cost: 10^12 units. It is also the largest max of a limit and the largest burst.
    pub const MAX: Self = Self(1_000_000_000_000);

    /// Creates a cost of `units`.
    ///
    /// # Errors
    /// If `units` is not within 1 to 10^12. A cost above a limit is not an error here: its decision is
    /// [`Impossible`](crate::Reason::Impossible).
    pub fn new(units: u64) -> Result<Self, CostError> {
        if (1..=Self::MAX.0).contains(&units) { Ok(Self(units)) } else { Err(CostError { units }) }
    }

    /// A cost that may be out of range: some conformance vectors exceed it.
    #[doc(hidden)]
    pub fn from_vector(units: u64) -> Self {
        Self(units)
    }

    /// The number of units.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A cost is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a cost of {units} is out of range: use 1 to 1000000000000, or peek to read without spending")]
#[non_exhaustive]
pub struct CostError {
    /// The given number of units.
    pub units: u64,
}
