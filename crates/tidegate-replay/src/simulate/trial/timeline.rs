//! [`Timeline`]: what was let through over time, coarse enough to draw.

use serde::Serialize;

use crate::bins::Bins;

/// The most bins.
pub(super) const MOST: usize = 300;

/// What was asked for and let through over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timeline {
    /// Where the first bin begins.
    pub from_us: u64,
    /// How long a bin is.
    pub bin_us: u64,
    /// Units asked for in each bin.
    pub asked_units: Vec<u64>,
    /// For each algorithm, units let through in each bin.
    pub admitted_units: Vec<Vec<u64>>,
}

impl Timeline {
    /// What bins tell that count what was asked for first, and then what each of the algorithms let through.
    pub(super) fn of(bins: &Bins, algorithms: usize) -> Self {
        Self {
            from_us: bins.start_us(),
            bin_us: bins.length_us(),
            asked_units: bins.column(0),
            admitted_units: (1..=algorithms).map(|column| bins.column(column)).collect(),
        }
    }
}
