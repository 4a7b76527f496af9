//! The results of a run, as text and as JSON. Serialised, these types are the JSON format; field names are stable.

use std::fmt;

use serde::Serialize;

use super::round::Round;
use crate::machine::Machine;
use crate::measure::median;
use crate::table::{Columns, grouped, highest, lowest, met_or_missed, target, whole};

/// A whole run.
#[derive(Debug, Serialize)]
pub struct RedisReport {
    /// Where it ran.
    pub machine: Machine,
    /// The server's version.
    pub redis: String,
    /// Rounds behind every median.
    pub rounds: u16,
    /// How long a round of decisions per second took.
    pub round_seconds: f64,
    /// Decisions per second.
    pub throughput: Vec<ThroughputRow>,
    /// Bytes per logged request.
    pub memory: Vec<MemoryRow>,
    /// Decisions while the server is down.
    pub outage: Vec<OutageRow>,
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
    /// The medians of at least one round.
    pub(super) fn of(rounds: &[Round]) -> Self {
        let middle = |value: fn(&Round) -> f64| median(rounds.iter().map(value));
        Self {
            per_second: middle(Round::per_second),
            rounds_per_second: rounds.iter().map(Round::per_second).collect(),
            allowed: middle(Round::allowed),
            script_us: middle(|round| round.per_decision(round.script_seconds)),
            server_us: middle(|round| round.per_decision(round.server_seconds)),
            client_us: middle(|round| round.per_decision(round.client_seconds)),
            server_cores: middle(|round| round.server_seconds / round.seconds),
            client_cores: middle(|round| round.client_seconds / round.seconds),
        }
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

impl fmt::Display for RedisReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, redis, rounds, round_seconds, .. } = self;
        writeln!(out, "{machine}, Redis {redis}\n{rounds} rounds, interleaved; the median of the rounds")?;
        let title = format!(
            "Decisions per second, rounds of {round_seconds} s, 100/1m, uniform keys; x: ours divided by theirs"
        );
        Columns::of(&self.throughput)
            .text("servers", |row| row.servers.to_owned())
            .text("ours", |row| row.algorithm.to_owned())
            .text("rival", |row| row.rival.to_owned())
            .text("call method", |row| row.way.clone())
            .number("keys", |row| grouped(row.keys))
            .number("tasks", |row| row.tasks.to_string())
            .number("batch", |row| format!("{:.1}", row.batch))
            .number("allowed", |row| format!("{:.0}/{:.0}%", row.ours.allowed * 100.0, row.theirs.allowed * 100.0))
            .number("ours/s", |row| whole(row.ours.per_second))
            .number("rival/s", |row| whole(row.theirs.per_second))
            .number("x", |row| format!("{:.2}", row.ratio))
            .number("target", |row| target(">=", row.wanted))
            .number("", |row| met_or_missed(row.ratio >= row.wanted))
            .write(out, &title)?;
        let both =
            self.throughput.iter().flat_map(|row| [(row, row.algorithm, &row.ours), (row, row.rival, &row.theirs)]);
        Columns::of(both)
            .text("servers", |(row, ..)| row.servers.to_owned())
            .text("contender", |(_, contender, _)| (*contender).to_owned())
            .number("keys", |(row, ..)| grouped(row.keys))
            .number("tasks", |(row, ..)| row.tasks.to_string())
            .number("script", |(.., summary)| format!("{:.2}", summary.script_us))
            .number("server", |(.., summary)| format!("{:.2}", summary.server_us))
            .number("client", |(.., summary)| format!("{:.2}", summary.client_us))
            .number("server cores", |(.., summary)| format!("{:.2}", summary.server_cores))
            .number("client cores", |(.., summary)| format!("{:.2}", summary.client_cores))
            .number("slowest/s", |(.., summary)| whole(lowest(&summary.rounds_per_second)))
            .number("fastest/s", |(.., summary)| whole(highest(&summary.rounds_per_second)))
            .write(out, "Cost of a decision in microseconds, and busy cores")?;
        Columns::of(self.throughput.iter().flat_map(|row| row.tried.iter().map(move |tried| (row, tried))))
            .text("servers", |(row, _)| row.servers.to_owned())
            .text("rival", |(row, _)| row.rival.to_owned())
            .text("call method", |(_, (method, _))| method.clone())
            .number("keys", |(row, _)| grouped(row.keys))
            .number("tasks", |(row, _)| row.tasks.to_string())
            .number("/s", |(_, (_, rate))| whole(*rate))
            .write(out, "Decisions per second of the rivals with each call method, in short rounds")?;
        Columns::of(&self.memory)
            .text("limit", |row| row.limit.clone())
            .text("measured by", |row| row.measure.to_owned())
            .number("keys", |row| row.keys.to_string())
            .number("requests", |row| row.requests.to_string())
            .number("ours", |row| format!("{:.2}", row.ours))
            .number("theirs", |row| format!("{:.2}", row.theirs))
            .number("x", |row| format!("{:.3}", row.ratio))
            .number("target", |row| target("<=", row.wanted))
            .number("", |row| met_or_missed(row.ratio <= row.wanted))
            .write(out, "Bytes in Redis per request in the window; x: ours divided by the sorted set's")?;
        Columns::of(&self.outage)
            .text("policy", |row| row.on_store_failure.to_owned())
            .number("keys", |row| grouped(row.keys))
            .number("without Redis", |row| format!("{:.1}", row.ours_ns))
            .number("in memory", |row| format!("{:.1}", row.memory_ns))
            .number("x", |row| format!("{:.2}", row.ratio))
            .number("target", |row| target("<=", row.wanted))
            .number("", |row| met_or_missed(row.ratio <= row.wanted))
            .write(out, "Nanoseconds of a decision while Redis is down; x: divided by those in memory")
    }
}
