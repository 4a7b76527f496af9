//! Heap bytes per key, from a counting allocator in a separate process.
//!
//! The threads share the allocator's counters, which would slow down a decision that allocates. So
//! the timed binary keeps the default allocator, and the binary `tidegate-bench-heap` counts. It
//! counts requested bytes, without the bytes that the allocator adds by rounding.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tidegate::Limit;

use crate::cargo::cargo;
use crate::compare::Options;
use crate::contenders::{self, ContenderEntry};
use crate::measure::{as_f64, warm_up};
use crate::saturated_log::{self, SaturatedLog};
use crate::workload;

const BINARY: &str = "tidegate-bench-heap";

/// Memory of all contenders.
#[derive(Debug, Serialize, Deserialize)]
pub struct HeapReport {
    /// The number of stored keys.
    pub keys: usize,
    /// The limit of every key.
    pub limit: String,
    /// A row per contender.
    pub rows: Vec<HeapRow>,
    /// Our log when it is full.
    pub saturated_log: SaturatedLog,
}

/// Memory of one contender; null where it had no result within the bound.
#[derive(Debug, Serialize, Deserialize)]
pub struct HeapRow {
    /// Its name.
    pub contender: String,
    /// Heap growth divided by keys, after one request of each.
    pub bytes_per_key: Option<f64>,
    /// The same after a second request of each.
    pub bytes_per_key_two_requests: Option<f64>,
}

/// Measures all selected contenders. `live_bytes` returns the number of allocated bytes.
///
/// # Errors
/// If a project is unknown.
pub fn measure(options: &Options, live_bytes: fn() -> usize) -> Result<HeapReport> {
    let keys = workload::texts(&workload::shuffled(options.many_keys()));
    let entries = contenders::select(&options.only)?;
    let rows = entries.iter().filter(|entry| entry.like.is_some());
    let limit = workload::limit(100, 60);
    let rows = rows.map(|entry| row(entry, limit, &keys, options.bound(), live_bytes)).collect();
    Ok(HeapReport {
        keys: keys.len(),
        limit: limit.to_string(),
        rows,
        saturated_log: saturated_log::measure(live_bytes),
    })
}

fn row(entry: &ContenderEntry, limit: Limit, keys: &[String], bound: Duration, live_bytes: fn() -> usize) -> HeapRow {
    let before = live_bytes();
    let limiter = (entry.build)(limit);
    let bytes_after_request = || {
        let is_in_time = warm_up(&*limiter, keys, 1, bound);
        is_in_time.then(|| as_f64(live_bytes().saturating_sub(before)) / as_f64(keys.len()))
    };
    let bytes_per_key = bytes_after_request();
    HeapRow {
        contender: entry.name.to_owned(),
        bytes_per_key,
        bytes_per_key_two_requests: bytes_per_key.and_then(|_| bytes_after_request()),
    }
}

/// Builds and runs the heap binary, and reads its report.
///
/// # Errors
/// If cargo cannot be started, or the binary fails.
pub fn measure_in_own_process(options: &Options) -> Result<HeapReport> {
    let mut command = cargo("run");
    command.args(["--release", "--bin", BINARY, "--", "--bound", &options.bound.to_string()]);
    command.args(options.size.quick.then_some("--quick"));
    if !options.only.is_empty() {
        command.args(["--only", &options.only.join(",")]);
    }
    let output = command.output().context("cargo could not be started to measure the heap")?;
    ensure!(output.status.success(), "{BINARY} failed: {}", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("unexpected output of {BINARY}"))
}
