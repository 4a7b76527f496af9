//! How far the cheaper algorithms are from the exact log, on traffic of several shapes.

mod text;

use serde::Serialize;
use tidegate::{Algorithm, Limit};

use super::{
    algorithms::approximations,
    traffic::{Shape, Traffic, TrafficError},
    trial::{self, Trialled},
};
pub use text::text;

/// What to try.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The limit.
    pub limit: Limit,
    /// The algorithms beside the exact log.
    pub algorithms: Vec<Algorithm>,
    /// The shapes of traffic.
    pub shapes: Vec<Shape>,
    /// How many clients send.
    pub clients: u32,
    /// About how many requests each shape has: they last as long as that takes, but at least four windows.
    pub requests: u64,
    /// What a client asks for on average, as a multiple of the limit. Adversaries ask for more than they get, always.
    pub load: f64,
    /// The same seed gives the same figures.
    pub seed: u64,
}

impl Options {
    /// A quarter of the limit on average, which for one client in fifty is more than the limit.
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            algorithms: approximations(),
            shapes: vec![Shape::Poisson, Shape::Bursty, Shape::Diurnal, Shape::Adversarial],
            clients: 200,
            requests: 200_000,
            load: 0.25,
            seed: 1,
        }
    }
}

/// How far algorithms are from the exact log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Accuracy {
    /// The limit, as it is written.
    pub limit: String,
    /// What a client asks for on average, as a multiple of the limit, if traffic is made up.
    pub load: Option<f64>,
    /// The seed of it.
    pub seed: Option<u64>,
    /// What was found on each trace. That of a replayed log can be added.
    pub traces: Vec<Trialled>,
}

/// Tries the algorithms on each shape of traffic; there may be none, where only a log is replayed.
///
/// # Errors
/// If the traffic can't be made.
pub fn run(options: &Options) -> Result<Accuracy, TrafficError> {
    let Options { limit, clients, requests, load, seed, .. } = *options;
    if !load.is_finite() || load <= 0.0 {
        return Err(TrafficError::Load { load });
    }
    let traces = options.shapes.iter().map(|shape| {
        let traffic = Traffic::around(limit, *shape, clients, requests, load, seed);
        trial::run(&traffic, limit, &options.algorithms)
    });
    let traces: Vec<Trialled> = traces.collect::<Result<_, _>>()?;
    let made_up = !traces.is_empty();
    Ok(Accuracy { limit: limit.to_string(), load: made_up.then_some(load), seed: made_up.then_some(seed), traces })
}
