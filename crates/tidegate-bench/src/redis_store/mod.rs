//! Compares the Redis store with the scripts of other projects: decisions per second, memory per logged
//! request, and the cost of a decision while Redis is down.
//!
//! The run starts its own servers. All contenders use the same server, the same client library and the same
//! runtime. A rival's script is called with several call methods, and the fastest on each workload is compared.

mod caller;
mod memory;
mod outage;
mod report;
mod rival;
mod round;
mod servers;
mod throughput;

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::machine::Machine;
use crate::options::Size;

pub use report::RedisReport;
pub(crate) use servers::{RedisServers, field, info, version};

/// One benchmark of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RedisBenchmark {
    /// Decisions per second, one server, `sliding_log`.
    Log,
    /// Decisions per second, one server, `sliding_counter`.
    Counter,
    /// Decisions per second, a cluster of three masters, `sliding_log`.
    Cluster,
    /// Bytes per logged request.
    Memory,
    /// Decisions while the server is down.
    Outage,
}

/// Options of the command line.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Milliseconds of a round in which decisions per second are measured
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u16).range(10..))]
    round: u16,
    /// Benchmarks to run, for example log,memory
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<RedisBenchmark>,
    #[command(flatten)]
    size: Size,
}

impl Options {
    /// How long a round of decisions per second takes.
    fn round(&self) -> Duration {
        Duration::from_micros(self.size.of(u64::from(self.round) * 1_000))
    }

    fn includes(&self, benchmark: RedisBenchmark) -> bool {
        self.only.is_empty() || self.only.contains(&benchmark)
    }
}

/// Runs the benchmarks.
///
/// # Errors
/// If a measurement is invalid, for example because Redis did not make a decision.
///
/// # Panics
/// If a server can't be started, or does not reply.
pub fn run(options: &Options) -> Result<RedisReport> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("no runtime")?;
    let mut report = RedisReport {
        machine: Machine::this(),
        redis: servers::version(),
        rounds: options.rounds,
        round_seconds: options.round().as_secs_f64(),
        throughput: Vec::new(),
        memory: Vec::new(),
        outage: Vec::new(),
    };
    for benchmark in [RedisBenchmark::Log, RedisBenchmark::Counter, RedisBenchmark::Cluster] {
        if options.includes(benchmark) {
            report.throughput.extend(runtime.block_on(throughput::run(benchmark, options))?);
        }
    }
    if options.includes(RedisBenchmark::Memory) {
        report.memory = runtime.block_on(memory::run(options))?;
    }
    if options.includes(RedisBenchmark::Outage) {
        report.outage = runtime.block_on(outage::run(options))?;
    }
    Ok(report)
}
