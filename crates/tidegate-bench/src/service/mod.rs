//! The service measured from outside, beside what one would otherwise put in its place: RESP beside Redis's own INCR, HTTP
//! beside a bare axum route that reads and writes the same JSON; and its memory, and how soon it answers.
//!
//! Every server is a process of its own, started for the run. Both sides of a comparison are asked by the same load
//! generator (redis-benchmark, wrk) on the same machine, in rounds that take turns.

pub mod bare_route;
mod dashboard;
mod first_answer;
mod memory;
pub(crate) mod process;
mod redis_benchmark;
pub(crate) mod report;
pub(crate) mod sides;
mod table;
pub(crate) mod throughput;
pub(crate) mod wrk;

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::machine::Machine;
use crate::progress::Progress;
use crate::redis_store;

pub use report::ServiceReport;
pub use table::render;

/// A part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServiceBenchmark {
    /// `TG.CHECK` compared with `INCR`.
    Resp,
    /// `/v1/check` compared with a bare route.
    Http,
    /// Resident memory after a million keys.
    Memory,
    /// Start to first answer.
    Start,
    /// The dashboard's page open against closed.
    Dashboard,
}

/// Options of the command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of rounds. Their median is reported.
    pub rounds: usize,
    /// How long a round takes, about.
    pub round: Duration,
    /// The benchmarks to run; empty means all.
    pub only: Vec<ServiceBenchmark>,
    /// How much memory is measured by, as a part of the whole: 1 or 10.
    pub divisor: usize,
}

impl Options {
    fn wants(&self, part: ServiceBenchmark) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// Measures everything.
///
/// # Errors
/// If the service can't be built or started, a load generator is missing, or a request was not answered as it should be.
///
/// # Panics
/// If Redis can't be started, or does not answer.
pub fn run(options: &Options) -> Result<ServiceReport> {
    let progress = Progress::new();
    progress.say("building the service");
    let binary = crate::binary::build()?;
    let busy_before = load_average();
    let mut rows = Vec::new();
    let mut goals = Vec::new();
    if options.wants(ServiceBenchmark::Resp) {
        rows.extend(throughput::resp(&binary, options, &progress)?);
    }
    if options.wants(ServiceBenchmark::Http) {
        rows.push(throughput::http(&binary, options, &progress)?);
    }
    if options.wants(ServiceBenchmark::Dashboard) {
        rows.extend(dashboard::run(&binary, options, &progress)?);
    }
    if options.wants(ServiceBenchmark::Memory) {
        goals.push(memory::run(&binary, options, &progress)?);
    }
    if options.wants(ServiceBenchmark::Start) {
        goals.push(first_answer::run(&binary, &progress)?);
    }
    progress.clear();
    ensure!(!rows.is_empty() || !goals.is_empty(), "nothing was measured");
    Ok(ServiceReport {
        machine: Machine::this(),
        redis: redis_store::version(),
        rounds: options.rounds,
        round_seconds: options.round.as_secs_f64(),
        load_average: [busy_before, load_average()],
        throughput: rows,
        goals,
    })
}

/// How many were about to run in the last minute, ourselves included: figures of a busy machine are to be read with care.
pub(crate) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}
