//! Counts heap bytes for `tidegate-bench compare`, which starts it and reads its JSON.

use std::alloc::System;

use anyhow::Result;
use clap::Parser;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tidegate_bench::compare::Options;
use tidegate_bench::heap::measure;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> Result<()> {
    let report = measure(&Options::parse(), live_bytes)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

fn live_bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}
