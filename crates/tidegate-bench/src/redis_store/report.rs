//! The results of a run. Serialised, these types are the JSON format; field names are stable.

use serde::Serialize;

use super::round::Round;
use crate::machine::Machine;
use crate::measure::median;

/// A whole run.
#[derive(Debug, Serialize)]
pub struct RedisReport {
    /// Where it ran.
    pub machine: Machine,
    /// The server's version.
    pub redis: String,
    /// Rounds behind every median.
    pub rounds: usize,
    /// How long a round of decisions per second took.
    pub round_seconds: f64,
    /// Decisions per second.
    pub throughput: Vec<ThroughputRow>,
    /// Bytes per logged request.
    pub memory: Vec<MemoryRow>,
    /// Decisions while the server is down.
    pub outage: Vec<OutageRow>,
}

impl RedisReport {
    pub(super) fn is_empty(&self) -> bool {
        self.throughput.is_empty() && self.memory.is_empty() && self.outage.is_empty()
    }
}

/// Ours and a rival on one workload.
#[derive(Debug, Serialize)]
pub struct ThroughputRow {
    /// One server or a cluster.
    pub servers: &'static str,
    /// Our algorithm.
    pub algorithm: &'static str,
    /// The project of the other script.
    pub rival: &'static str,
    /// The fastest of the call methods for the rival.
    pub way: String,
    /// The number of keys, with uniform requests.
    pub keys: usize,
    /// Concurrent decisions.
    pub tasks: usize,
    /// Our decisions divided by calls of the script.
    pub batch: f64,
    /// Ours.
    pub ours: ThroughputSummary,
    /// The rival's.
    pub theirs: ThroughputSummary,
    /// Our median decisions per second divided by the rival's.
    pub ratio: f64,
    /// The minimum of the ratio.
    pub wanted: f64,
    /// Decisions per second of each call method of the rival, in a short round before the run.
    pub tried: Vec<(String, f64)>,
}

/// The medians of one contender.
#[derive(Debug, Serialize)]
pub struct ThroughputSummary {
    /// Decisions per second.
    pub per_second: f64,
    /// Each round.
    pub rounds_per_second: Vec<f64>,
    /// The share of admitted requests.
    pub allowed: f64,
    /// Microseconds within the script for each decision, as the server counts them.
    pub script_us: f64,
    /// Processor time of the servers for each decision, in microseconds.
    pub server_us: f64,
    /// Processor time of the client for each decision, in microseconds.
    pub client_us: f64,
    /// Processor time of the servers divided by wall time: 1 is one core.
    pub server_cores: f64,
    /// Processor time of the client divided by wall time.
    pub client_cores: f64,
}

impl ThroughputSummary {
    /// None if there was no round.
    pub(super) fn of(rounds: &[Round]) -> Option<Self> {
        let middle = |value: fn(&Round) -> f64| median(&rounds.iter().map(value).collect::<Vec<_>>());
        Some(Self {
            per_second: middle(Round::per_second)?,
            rounds_per_second: rounds.iter().map(Round::per_second).collect(),
            allowed: middle(Round::allowed)?,
            script_us: middle(|round| round.per_decision(round.script_seconds))?,
            server_us: middle(|round| round.per_decision(round.server_seconds))?,
            client_us: middle(|round| round.per_decision(round.client_seconds))?,
            server_cores: middle(|round| round.server_seconds / round.seconds)?,
            client_cores: middle(|round| round.client_seconds / round.seconds)?,
        })
    }
}

/// Bytes that Redis keeps for requests in the window.
#[derive(Debug, Serialize)]
pub struct MemoryRow {
    /// The limit.
    pub limit: String,
    /// The number of keys.
    pub keys: usize,
    /// Requests in the window of each key.
    pub requests: usize,
    /// The method of measurement.
    pub measure: &'static str,
    /// Bytes for each request in our log.
    pub ours: f64,
    /// Bytes for each request in the sorted set.
    pub theirs: f64,
    /// Ours divided by theirs.
    pub ratio: f64,
    /// The maximum of the ratio.
    pub wanted: f64,
}

/// A decision while the server is down, compared with a decision in memory.
#[derive(Debug, Serialize)]
pub struct OutageRow {
    /// The policy's choice for a failed store.
    pub on_store_failure: &'static str,
    /// The number of keys, with uniform requests.
    pub keys: usize,
    /// Median nanoseconds without Redis.
    pub ours_ns: f64,
    /// Median nanoseconds of the same policy in memory.
    pub memory_ns: f64,
    /// The former divided by the latter.
    pub ratio: f64,
    /// The maximum of the ratio.
    pub wanted: f64,
}
