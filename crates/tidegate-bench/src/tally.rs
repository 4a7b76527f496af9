//! [`Tally`]: the number of decisions and of admitted requests.

use std::iter::Sum;

/// Counts of decisions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// The number of decisions.
    pub decisions: usize,
    /// The number of admitted requests.
    pub allowed: usize,
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |sum, tally| Self {
            decisions: sum.decisions + tally.decisions,
            allowed: sum.allowed + tally.allowed,
        })
    }
}
