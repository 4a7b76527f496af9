//! [`Cost`]: units that one request spends.

use crate::limit::MAX_UNITS;

/// The units that one request spends: 1 to 10^12.
///
/// There is no cost of 0: to look without spending, [`peek`](crate::Limiter::peek).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

impl Cost {
    /// What an ordinary request costs.
    pub const ONE: Self = Self(1);

    /// Makes a cost of `units`.
    ///
    /// # Errors
    /// If `units` is not within 1 to 10^12. A cost above a limit is no error here: the decision says
    /// [`Impossible`](crate::Reason::Impossible).
    pub fn new(units: u64) -> Result<Self, CostError> {
        if (1..=MAX_UNITS).contains(&units) { Ok(Self(units)) } else { Err(CostError { units }) }
    }

    /// A cost that may be out of range: the conformance vectors go a little beyond it.
    #[doc(hidden)]
    pub fn from_vector(units: u64) -> Self {
        Self(units)
    }

    /// The number of units.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// A cost out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a cost of {units} is out of range: use 1 to 1000000000000, or peek to look without spending")]
pub struct CostError {
    /// What was asked for.
    pub units: u64,
}
