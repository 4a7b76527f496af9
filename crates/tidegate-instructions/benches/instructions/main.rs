//! Instructions of one decision, counted by callgrind. No clock is read, and no other thread runs.
//!
//! Every benchmark makes [`DECISIONS`](tidegate_instructions::DECISIONS) decisions of one kind, by which the counts are
//! divided. Filling the store and building keys is not counted.
//!
//! Run it with `cargo run --release -p tidegate-instructions`.

#![allow(missing_docs, reason = "gungraun's macros make public items")]

mod decisions;
mod holds;

use decisions::decision;
use gungraun::prelude::*;
use holds::hold;

main!(library_benchmark_groups = [decision, hold]);
