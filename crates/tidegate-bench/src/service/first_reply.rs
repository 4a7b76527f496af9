//! The time from the start of the process to its first decision.

use std::path::Path;

use anyhow::Result;

use super::report::Goal;
use super::servers::Tidegate;
use crate::measure::median;
use crate::progress;
use crate::stopwatch::now;

const STARTS: usize = 10;

pub(super) fn run(binary: &Path) -> Result<Goal> {
    progress::show("start to first reply");
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let began = now();
        let tidegate = Tidegate::start(binary)?;
        times.push((now() - began).as_secs_f64() * 1e3);
        drop(tidegate);
    }
    let what = format!("start to first reply, median of {STARTS}");
    Ok(Goal { what, unit: "ms", measured: median(times), wanted: 100.0 })
}
