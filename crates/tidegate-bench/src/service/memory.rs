//! The memory of the process after a million keys.

use std::path::Path;

use anyhow::{Result, ensure};
use tidegate_testbed::Wire;

use super::Options;
use super::report::Goal;
use super::servers::{Tidegate, is_allowed};
use crate::progress;

const KEYS: usize = 1_000_000;
const PIPELINE: usize = 1_000;
const POLICY: &str = "sliding_counter";

pub(super) fn run(binary: &Path, options: &Options) -> Result<Goal> {
    let keys = options.size.of(KEYS);
    progress::show(&format!("memory of {keys} keys"));
    let tidegate = Tidegate::start(binary)?;
    let mut wire = Wire::try_connect(tidegate.resp)?;
    for first in (0..keys).step_by(PIPELINE) {
        let numbers = first..first + PIPELINE;
        for number in numbers.clone() {
            wire.try_send(["TG.CHECK", POLICY, &format!("key:{number:012}")])?;
        }
        for number in numbers {
            let reply = wire.try_read()?;
            ensure!(is_allowed(&reply), "the reply for key {number} is {reply:?}");
        }
    }
    Ok(Goal {
        what: format!("resident memory after {keys} keys, {POLICY}"),
        unit: "MB",
        measured: tidegate.process.id().megabytes("VmRSS:")?,
        wanted: 150.0,
    })
}
