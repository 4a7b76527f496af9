//! The results of a run. Serialised, these types are the JSON format; field names are stable.

use serde::Serialize;

use super::throughput::Round;
use crate::machine::Machine;
use crate::measure::median;

/// A whole run.
#[derive(Debug, Serialize)]
pub struct ServiceReport {
    /// Where it ran.
    pub machine: Machine,
    /// The version of the Redis it is compared with.
    pub redis: String,
    /// Rounds behind every median.
    pub rounds: usize,
    /// The approximate length of a round.
    pub round_seconds: f64,
    /// The load average of the machine before the run and after it.
    pub load_average: [f64; 2],
    /// Requests per second, compared with another server.
    pub throughput: Vec<ThroughputRow>,
    /// Measurements without a comparison.
    pub goals: Vec<Goal>,
}

/// Our server and another server under the same load.
#[derive(Debug, Serialize)]
pub struct ThroughputRow {
    /// The request.
    pub what: String,
    /// The other server.
    pub rival: &'static str,
    /// Ours.
    pub ours: ServerSummary,
    /// The other's.
    pub theirs: ServerSummary,
    /// Our median requests per second divided by theirs.
    pub speed: f64,
    /// The minimum of the ratio; 0 if there is no target.
    pub wanted_speed: f64,
    /// Our median processor time for a request divided by theirs.
    pub cost: f64,
    /// The maximum of the ratio, if there is a target.
    pub wanted_cost: Option<f64>,
}

impl ThroughputRow {
    pub(super) fn new(
        what: String,
        rival: &'static str,
        ours: ServerSummary,
        theirs: ServerSummary,
        wanted_speed: f64,
        wanted_cost: Option<f64>,
    ) -> Self {
        let (speed, cost) = (ours.per_second / theirs.per_second, ours.server_us / theirs.server_us);
        Self { what, rival, ours, theirs, speed, wanted_speed, cost, wanted_cost }
    }
}

/// The medians of one server.
#[derive(Debug, Serialize)]
pub struct ServerSummary {
    /// Requests per second.
    pub per_second: f64,
    /// Each round.
    pub rounds_per_second: Vec<f64>,
    /// Processor time of the server for each request, in microseconds.
    pub server_us: f64,
    /// Processor time of the server divided by wall time: 1 is one core.
    pub server_cores: f64,
    /// Percentiles of the latency, in milliseconds.
    pub latency_ms: Latency,
}

/// Percentiles of the latency in milliseconds, as the load generator reports them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// The 50th percentile.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The percentile 99.9.
    pub p999: f64,
}

impl ServerSummary {
    /// Returns the medians, or `None` if there was no round.
    pub(crate) fn of(rounds: &[Round]) -> Option<Self> {
        let middle = |value: fn(&Round) -> f64| median(&rounds.iter().map(value).collect::<Vec<_>>());
        Some(Self {
            per_second: middle(|round| round.load.per_second)?,
            rounds_per_second: rounds.iter().map(|round| round.load.per_second).collect(),
            server_us: middle(Round::server_us)?,
            server_cores: middle(Round::server_cores)?,
            latency_ms: Latency {
                p50: middle(|round| round.load.latency.p50)?,
                p99: middle(|round| round.load.latency.p99)?,
                p999: middle(|round| round.load.latency.p999)?,
            },
        })
    }
}

/// A measurement without a comparison.
#[derive(Debug, Serialize)]
pub struct Goal {
    /// The benchmark.
    pub what: String,
    /// The unit.
    pub unit: &'static str,
    /// The measured value.
    pub measured: f64,
    /// The maximum value.
    pub wanted: f64,
}
