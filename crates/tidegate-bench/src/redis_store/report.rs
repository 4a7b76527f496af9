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
    /// Decisions while the server is away.
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
    /// Where Redis is: one server or a cluster.
    pub servers: &'static str,
    /// Our algorithm.
    pub algorithm: &'static str,
    /// The project of the other script.
    pub rival: &'static str,
    /// The fastest of the call methods for the rival.
    pub way: String,
    /// How many keys, all equally often.
    pub keys: usize,
    /// Concurrent decisions.
    pub tasks: usize,
    /// Decisions of ours by calls of the script.
    pub batch: f64,
    /// Ours.
    pub ours: Flow,
    /// The rival's.
    pub theirs: Flow,
    /// Our decisions per second by the rival's, medians.
    pub ratio: f64,
    /// The minimum of the ratio.
    pub wanted: f64,
    /// Decisions per second of each call method of the rival, in a short round before the run.
    pub tried: Vec<(String, f64)>,
}

/// The medians of one contender.
#[derive(Debug, Serialize)]
pub struct Flow {
    /// Decisions per second.
    pub per_second: f64,
    /// Each round.
    pub rounds_per_second: Vec<f64>,
    /// The share of requests that passed.
    pub allowed: f64,
    /// Microseconds within the script by decisions, as the server counts them.
    pub script_us: f64,
    /// Processor time of the servers by decisions, in microseconds.
    pub server_us: f64,
    /// Processor time of the client by decisions, in microseconds.
    pub client_us: f64,
    /// Processor time of the servers by the time passed: 1 is one core.
    pub server_cores: f64,
    /// Processor time of the client by the time passed.
    pub client_cores: f64,
}

impl Flow {
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
    /// How many keys.
    pub keys: usize,
    /// Requests in the window of each key.
    pub requests: usize,
    /// How it was measured.
    pub measure: &'static str,
    /// Bytes by requests, our log.
    pub ours: f64,
    /// Bytes by requests, the sorted set.
    pub theirs: f64,
    /// Ours by theirs.
    pub ratio: f64,
    /// The maximum of the ratio.
    pub wanted: f64,
}

/// A decision while the server is down, compared with a decision in memory.
#[derive(Debug, Serialize)]
pub struct OutageRow {
    /// The policy's choice for a failed store.
    pub on_store_failure: &'static str,
    /// How many keys, all equally often.
    pub keys: usize,
    /// Median nanoseconds without Redis.
    pub ours_ns: f64,
    /// Median nanoseconds of the same policy in memory.
    pub memory_ns: f64,
    /// The former by the latter.
    pub ratio: f64,
    /// The maximum of the ratio.
    pub wanted: f64,
}
