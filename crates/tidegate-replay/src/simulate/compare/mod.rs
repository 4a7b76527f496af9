//! All algorithms on one trace.

mod text;

use tidegate::{Algorithm, Limit};

use super::{
    algorithms::one_of_each,
    traffic::{Shape, Traffic, TrafficError},
    trial::{self, Trialled},
};
pub use text::text;

/// What to compare. A trace that is given goes through a [`Trial`](trial::Trial) of the same algorithms.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The limit.
    pub limit: Limit,
    /// The algorithms; the exact log is always among them.
    pub algorithms: Vec<Algorithm>,
    /// The traffic.
    pub traffic: Traffic,
}

impl Options {
    /// One algorithm of each kind, on traffic that the limit matters to.
    pub fn new(limit: Limit) -> Self {
        let traffic = Traffic::around(limit, Shape::Bursty, 200, 200_000, 0.25, 1);
        Self { limit, algorithms: one_of_each(), traffic }
    }
}

/// Tries all algorithms on one trace.
///
/// # Errors
/// If the traffic can't be made.
pub fn run(options: &Options) -> Result<Trialled, TrafficError> {
    trial::run(&options.traffic, options.limit, &options.algorithms)
}
