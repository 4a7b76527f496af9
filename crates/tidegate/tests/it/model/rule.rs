//! The words of the contract, as plain numbers.

use super::CEILING;

/// A time or a span of time in microseconds; signed, so that a log's ages may reach behind the epoch.
pub(crate) type Micros = i128;

/// Units charged, in use or asked for.
pub(crate) type Units = i128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algo {
    Log,
    Counter,
    Buckets(i128),
    Fixed,
    Gcra,
}

/// One limit: `capacity` is max, or burst for gcra.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cap {
    pub(crate) max: Units,
    pub(crate) window: Micros,
    pub(crate) capacity: Units,
}

impl Cap {
    pub(crate) fn new(max: Units, window: Micros) -> Self {
        Self { max, window, capacity: max }
    }
}

/// A policy, without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) algo: Algo,
    pub(crate) caps: Vec<Cap>,
    pub(crate) shadow: bool,
}

impl Rule {
    pub(crate) fn new(algo: Algo, caps: Vec<Cap>) -> Self {
        Self { algo, caps, shadow: false }
    }

    pub(crate) fn longest_window(&self) -> Micros {
        self.caps.iter().map(|cap| cap.window).max().expect("a policy has a limit")
    }

    /// Units that can be charged some sixty times before a debt of them saturates.
    pub(crate) fn storable(&self) -> Units {
        self.caps.iter().map(|cap| CEILING / 64 * cap.max / cap.window).min().expect("a policy has a limit")
    }

    /// Windows, buckets and algorithm make the shape; max, burst and mode do not.
    pub(crate) fn same_shape(&self, other: &Self) -> bool {
        self.algo == other.algo
            && self.caps.len() == other.caps.len()
            && self.caps.iter().zip(&other.caps).all(|(one, two)| one.window == two.window)
    }
}
