//! From the start of the process to the first decision that somebody got.

use std::path::Path;

use anyhow::{Context, Result};

use super::report::Goal;
use super::sides::Tidegate;
use crate::measure::median;
use crate::progress::Progress;
use crate::stopwatch::now;

const STARTS: usize = 10;

pub(super) fn run(binary: &Path, progress: &Progress) -> Result<Goal> {
    progress.say("start to first answer");
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let began = now();
        let tidegate = Tidegate::start(binary)?;
        times.push((now() - began).as_secs_f64() * 1e3);
        drop(tidegate);
    }
    let measured = median(&times).context("there is a start")?;
    Ok(Goal { what: format!("start to first answer, median of {STARTS}"), unit: "ms", measured, wanted: 100.0 })
}
