//! The shared store measured beside the scripts that others run in Redis: decisions per second, memory per
//! logged request, and what a decision costs while Redis is away.
//!
//! Servers are started for the run. Everybody asks the same server by the same client library from the same
//! runtime. A rival may call its script in several ways; the fastest of them on the workload at hand is the
//! one that is compared.

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
pub(crate) use table::{verdict, whole};

/// A part of the run.
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
    /// Decisions while the server is away.
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
    /// How much memory and outage are measured by, as a part of the whole: 1 or 10.
    pub divisor: usize,
}

impl Options {
    fn wants(&self, part: RedisBenchmark) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// Measures everything.
///
/// # Errors
/// If something was not measured as it should be, such as a decision that Redis did not make.
///
/// # Panics
/// If a server can't be started, or does not answer.
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
    for part in [RedisBenchmark::Log, RedisBenchmark::Counter, RedisBenchmark::Cluster] {
        if options.wants(part) {
            report.throughput.extend(runtime.block_on(throughput::run(part, options, &progress))?);
        }
    }
    if options.wants(RedisBenchmark::Memory) {
        report.memory = runtime.block_on(memory::run(options, &progress))?;
    }
    if options.wants(RedisBenchmark::Outage) {
        report.outage = runtime.block_on(outage::run(options, &progress))?;
    }
    progress.clear();
    ensure!(!report.is_empty(), "nothing was measured");
    Ok(report)
}
