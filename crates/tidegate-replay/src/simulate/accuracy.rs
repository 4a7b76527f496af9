//! How far the approximate algorithms are from `sliding_log`, on several shapes of traffic.

use serde::Serialize;
use tidegate::{Algorithm, Limit};

use super::{
    algorithms::approximations,
    evaluation::{self, TraceResult},
    traffic::{Traffic, TrafficError, TrafficShape},
};

/// Options of the comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The limit.
    pub limit: Limit,
    /// Algorithms to compare with `sliding_log`.
    pub algorithms: Vec<Algorithm>,
    /// Shapes of traffic.
    pub shapes: Vec<TrafficShape>,
    /// Number of clients.
    pub clients: u32,
    /// Approximate number of requests of each shape. The traffic lasts at least four windows.
    pub requests: u64,
    /// Average demand of a client, as a multiple of the limit. Adversaries always request more than they get.
    pub load: f64,
    /// Seed of the random numbers. The same seed gives the same results.
    pub seed: u64,
}

impl Options {
    /// Returns the default options: a quarter of the limit on average, which is more than the limit for one client in fifty.
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            algorithms: approximations(),
            shapes: TrafficShape::ALL.into_iter().filter(|shape| *shape != TrafficShape::Mix).collect(),
            clients: 200,
            requests: 200_000,
            load: 0.25,
            seed: 1,
        }
    }
}

/// Distance of algorithms from `sliding_log`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Accuracy {
    /// The limit as text.
    pub limit: String,
    /// Average demand of a simulated client, as a multiple of the limit.
    pub load: Option<f64>,
    /// Seed of the simulated traffic.
    pub seed: Option<u64>,
    /// Results of each trace. The trace of a replayed log can be added.
    pub traces: Vec<TraceResult>,
}

/// Tries the algorithms on each shape of traffic. The list of shapes may be empty if only a log is replayed.
///
/// # Errors
/// If the options of the traffic are invalid.
pub fn run(options: &Options) -> Result<Accuracy, TrafficError> {
    let Options { limit, clients, requests, load, seed, .. } = *options;
    let traces = options.shapes.iter().map(|shape| {
        let traffic = Traffic::for_limit(limit, *shape, clients, requests, load, seed)?;
        evaluation::run(&traffic, limit, &options.algorithms)
    });
    let traces: Vec<TraceResult> = traces.collect::<Result<_, _>>()?;
    let simulated = !traces.is_empty();
    Ok(Accuracy { limit: limit.to_string(), load: simulated.then_some(load), seed: simulated.then_some(seed), traces })
}
