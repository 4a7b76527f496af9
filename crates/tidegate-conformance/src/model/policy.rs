//! Algorithm, limit and policy as plain numbers.

use super::MAX_STORED;

/// A time or a duration in microseconds. It is signed because the entries of a log may be dated before the epoch.
pub type Micros = i128;

/// Units that are charged, in use or requested.
pub type Units = i128;

/// An algorithm of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelAlgorithm {
    /// `sliding_log`.
    SlidingLog,
    /// `sliding_counter`.
    SlidingCounter,
    /// `sliding_buckets:n`.
    SlidingBuckets(i128),
    /// `fixed_window`.
    FixedWindow,
    /// `gcra`. The burst is the capacity of each limit.
    Gcra,
}

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelLimit {
    /// Units for each window.
    pub max: Units,
    /// The window; 0 for a limit on the units in flight.
    pub window: Micros,
    /// Maximum number of units in use at once: the burst for gcra, else `max`.
    pub capacity: Units,
}

impl ModelLimit {
    /// Makes a limit whose capacity is its max.
    pub fn new(max: Units, window: Micros) -> Self {
        Self { max, window, capacity: max }
    }

    /// Makes a limit on the units of open holds.
    pub fn in_flight(max: Units) -> Self {
        Self::new(max, 0)
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        self.window == 0
    }
}

/// A policy without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPolicy {
    /// The algorithm of every limit.
    pub algorithm: ModelAlgorithm,
    /// At least one limit.
    pub limits: Vec<ModelLimit>,
    /// Whether the policy is in shadow mode.
    pub shadow: bool,
}

impl ModelPolicy {
    /// Makes an enforcing policy.
    pub fn new(algorithm: ModelAlgorithm, limits: Vec<ModelLimit>) -> Self {
        Self { algorithm, limits, shadow: false }
    }

    /// The longest window of its limits.
    ///
    /// # Panics
    /// If there is no limit.
    pub fn longest_window(&self) -> Micros {
        self.limits.iter().map(|limit| limit.window).max().expect("a policy has a limit")
    }

    /// Units that can be charged some sixty times before their debt saturates.
    pub(crate) fn storable(&self) -> Units {
        self.limits
            .iter()
            .filter(|limit| !limit.is_in_flight())
            .map(|limit| MAX_STORED / 64 * limit.max / limit.window)
            .min()
            .unwrap_or(MAX_STORED)
    }

    /// Whether both have the same shape: windows, buckets and algorithm. Max, burst and mode are not part of the shape.
    pub(crate) fn same_shape(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm
            && self.limits.len() == other.limits.len()
            && self.limits.iter().zip(&other.limits).all(|(one, two)| one.window == two.window)
    }
}
