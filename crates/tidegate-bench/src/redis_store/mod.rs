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
mod table;
mod throughput;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::machine::Machine;
use crate::progress::Progress;

pub use report::RedisReport;
pub(crate) use servers::{field, info, version};
pub use table::render;

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
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of rounds. Their median is reported.
    pub rounds: usize,
    /// How long a round of decisions per second takes.
    pub round: Duration,
    /// The benchmarks to run; empty means all.
    pub only: Vec<RedisBenchmark>,
    /// The divisor of the keys and decisions of the memory and outage benchmarks: 1 or 10.
    pub divisor: usize,
}

impl Options {
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
    let progress = Progress::new();
    let mut report = RedisReport {
        machine: Machine::this(),
        redis: servers::version(),
        rounds: options.rounds,
        round_seconds: options.round.as_secs_f64(),
        throughput: Vec::new(),
        memory: Vec::new(),
        outage: Vec::new(),
    };
    for benchmark in [RedisBenchmark::Log, RedisBenchmark::Counter, RedisBenchmark::Cluster] {
        if options.includes(benchmark) {
            report.throughput.extend(runtime.block_on(throughput::run(benchmark, options, &progress))?);
        }
    }
    if options.includes(RedisBenchmark::Memory) {
        report.memory = runtime.block_on(memory::run(options, &progress))?;
    }
    if options.includes(RedisBenchmark::Outage) {
        report.outage = runtime.block_on(outage::run(options, &progress))?;
    }
    progress.clear();
    ensure!(!report.is_empty(), "nothing was measured");
    Ok(report)
}
