//! `TG.RESERVE` and `TG.COMMIT` over RESP, compared with two `INCR` of Redis.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use tidegate_testbed::Server;

use super::Options;
use super::pipelines::{self, PIPELINE, Traffic};
use super::report::ThroughputRow;
use super::servers::{Tidegate, redis_id};
use super::throughput::{interleaved, round};
use crate::progress;

/// The length of a trial, which touches most keys.
const TRIAL: Duration = Duration::from_secs(1);

/// Compares the service with Redis for each algorithm.
pub(super) fn run(binary: &Path, options: &Options) -> Result<Vec<ThroughputRow>> {
    let redis = Server::start();
    let (redis_at, redis_id) = (redis.addr().parse()?, redis_id(&redis)?);
    pipelines::run(redis_at, Traffic::TwoIncr, TRIAL)?;
    let mut rows = Vec::new();
    for policy in ["sliding_log", "sliding_counter"] {
        progress::show(&format!("RESP, reserve and commit, {policy}"));
        let tidegate = Tidegate::start(binary)?;
        let traffic = Traffic::ReserveAndCommit(policy);
        pipelines::run(tidegate.resp, traffic, TRIAL)?;
        let ours = || round(tidegate.process.id(), || pipelines::run(tidegate.resp, traffic, options.round()));
        let theirs = || round(redis_id, || pipelines::run(redis_at, Traffic::TwoIncr, options.round()));
        let rounds = interleaved(options.rounds, &[&ours, &theirs])?;
        let what = format!("RESP TG.RESERVE + TG.COMMIT, pipeline {PIPELINE}, {policy}");
        rows.push(ThroughputRow::new(what, "two Redis INCR", [&rounds[0], &rounds[1]], 0.5, None));
    }
    Ok(rows)
}
