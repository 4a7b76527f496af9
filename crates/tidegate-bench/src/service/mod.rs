//! Measures the service from outside: RESP compared with INCR of Redis, HTTP compared with a bare axum route that reads
//! and writes the same JSON, its memory, and the time until its first reply.
//!
//! The run starts every server in a separate process. The same load generator (redis-benchmark, wrk or `pipelines`) on
//! the same machine sends requests to both servers of a comparison, in interleaved rounds.

pub mod bare_route;
mod dashboard;
mod first_reply;
mod holds;
mod memory;
mod pipelines;
pub(crate) mod process;
mod redis_benchmark;
pub(crate) mod report;
mod servers;
pub(crate) mod throughput;
pub(crate) mod wrk;

use std::fs;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::machine::Machine;
use crate::options::Size;
use crate::{cargo, progress, redis_store};

pub use report::ServiceReport;

/// One benchmark of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServiceBenchmark {
    /// `TG.CHECK` compared with `INCR`.
    Resp,
    /// `TG.RESERVE` and `TG.COMMIT` compared with two `INCR`.
    Holds,
    /// `/v1/check` compared with a bare route.
    Http,
    /// Resident memory after a million keys.
    Memory,
    /// Time from the start to the first reply.
    Start,
    /// An open dashboard compared with a closed one.
    Dashboard,
}

/// Options of the command line.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Approximate milliseconds of a round
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u16).range(10..))]
    round: u16,
    /// Benchmarks to run, for example resp,memory
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<ServiceBenchmark>,
    #[command(flatten)]
    size: Size,
}

impl Options {
    /// The approximate length of a round.
    fn round(&self) -> Duration {
        Duration::from_micros(self.size.of(u64::from(self.round) * 1_000))
    }

    fn includes(&self, benchmark: ServiceBenchmark) -> bool {
        self.only.is_empty() || self.only.contains(&benchmark)
    }
}

/// Runs the benchmarks.
///
/// # Errors
/// If the service can't be built or started, a load generator is missing, or a request failed.
///
/// # Panics
/// If Redis can't be started, or does not reply.
pub fn run(options: &Options) -> Result<ServiceReport> {
    progress::show("building the service");
    let binary = cargo::build_service()?;
    let load_before = load_average();
    let mut rows = Vec::new();
    let mut goals = Vec::new();
    if options.includes(ServiceBenchmark::Resp) {
        rows.extend(throughput::resp(&binary, options)?);
    }
    if options.includes(ServiceBenchmark::Holds) {
        rows.extend(holds::run(&binary, options)?);
    }
    if options.includes(ServiceBenchmark::Http) {
        rows.push(throughput::http(&binary, options)?);
    }
    if options.includes(ServiceBenchmark::Dashboard) {
        rows.extend(dashboard::run(&binary, options)?);
    }
    if options.includes(ServiceBenchmark::Memory) {
        goals.push(memory::run(&binary, options)?);
    }
    if options.includes(ServiceBenchmark::Start) {
        goals.push(first_reply::run(&binary)?);
    }
    Ok(ServiceReport {
        machine: Machine::this(),
        redis: redis_store::version(),
        rounds: options.rounds,
        round_seconds: options.round().as_secs_f64(),
        load_average: [load_before, load_average()],
        throughput: rows,
        goals,
    })
}

/// The load average of the last minute, this process included. Figures of a busy machine are less reliable.
pub(crate) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}
