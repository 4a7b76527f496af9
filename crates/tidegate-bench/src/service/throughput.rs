//! Requests per second and the processor time of a request, ours and the other server's. Rounds are interleaved, and
//! medians are reported.

use std::path::Path;

use anyhow::{Result, ensure};
use tidegate_testbed::Server;

use super::Options;
use super::process::{OwnServer, Pid};
use super::redis_benchmark::{self, KEY};
use super::report::{Latency, ThroughputRow};
use super::servers::{Tidegate, redis_id};
use super::wrk;
use crate::measure::as_f64;
use crate::progress;

/// The number of commands of a trial, which measures the speed of the machine and touches most keys.
pub(super) const TRIAL: usize = 200_000;

/// The output of a load generator for one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// The number of requests with a response.
    pub(crate) commands: usize,
    /// Responses per second.
    pub(crate) per_second: f64,
    /// Percentiles of the latency.
    pub(crate) latency: Latency,
}

/// A round, and the processor time of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) load: Load,
    /// Processor time of the server.
    pub(crate) server_seconds: f64,
}

impl Round {
    /// Processor time for each command, in microseconds.
    pub(crate) fn server_us(&self) -> f64 {
        self.server_seconds * 1e6 / as_f64(self.load.commands)
    }

    /// Processor time divided by wall time.
    pub(super) fn server_cores(&self) -> f64 {
        self.server_us() / 1e6 * self.load.per_second
    }
}

/// Sends load to the server with this id.
pub(crate) fn round(id: Pid, send_load: impl Fn() -> Result<Load>) -> Result<Round> {
    let before = id.processor_seconds()?;
    let load = send_load()?;
    ensure!(load.commands > 0, "a round was empty");
    Ok(Round { load, server_seconds: id.processor_seconds()? - before })
}

/// Runs a round of each server, then the next round of each. Returns the rounds of each server.
pub(crate) fn interleaved(rounds: u16, servers: &[&dyn Fn() -> Result<Round>]) -> Result<Vec<Vec<Round>>> {
    let mut results = vec![Vec::new(); servers.len()];
    for _ in 0..rounds {
        for (round, results) in servers.iter().zip(&mut results) {
            results.push(round()?);
        }
    }
    Ok(results)
}

/// Compares `TG.CHECK` of both algorithms with `INCR`, one at a time and in pipelines.
pub(super) fn resp(binary: &Path, options: &Options) -> Result<Vec<ThroughputRow>> {
    let redis = Server::start();
    let redis_at = redis.addr().parse()?;
    let incr = ["INCR", KEY];
    let mut rows = Vec::new();
    for (pipeline, wanted, wanted_cost) in [(1, 0.9, Some(1.2)), (16, 0.6, None)] {
        let first = redis_benchmark::run(redis_at, pipeline, options.size.of(TRIAL), &incr)?;
        let commands = commands(first.per_second * options.round().as_secs_f64());
        for policy in ["sliding_log", "sliding_counter"] {
            progress::show(&format!("RESP, {policy}, pipelines of {pipeline}"));
            // A new service each time, so that it starts without state.
            let tidegate = Tidegate::start(binary)?;
            let check = ["TG.CHECK", policy, KEY];
            redis_benchmark::run(tidegate.resp, pipeline, options.size.of(TRIAL), &check)?;
            let redis_id = redis_id(&redis)?;
            let ours =
                || round(tidegate.process.id(), || redis_benchmark::run(tidegate.resp, pipeline, commands, &check));
            let theirs = || round(redis_id, || redis_benchmark::run(redis_at, pipeline, commands, &incr));
            let rounds = interleaved(options.rounds, &[&ours, &theirs])?;
            let what = format!("RESP TG.CHECK, pipeline {pipeline}, {policy}");
            rows.push(ThroughputRow::new(what, "Redis INCR", [&rounds[0], &rounds[1]], wanted, wanted_cost));
        }
    }
    Ok(rows)
}

/// Compares `/v1/check` with the bare route.
pub(super) fn http(binary: &Path, options: &Options) -> Result<ThroughputRow> {
    progress::show("HTTP");
    let policy = "sliding_log";
    let (tidegate, bare) = (Tidegate::start(binary)?, OwnServer::start(&["bare-route"])?);
    let seconds = options.round().as_secs().max(1);
    for server in [tidegate.http, bare.address] {
        wrk::check(server, 1, policy)?;
    }
    let ours = || round(tidegate.process.id(), || wrk::check(tidegate.http, seconds, policy));
    let theirs = || round(bare.process.id(), || wrk::check(bare.address, seconds, policy));
    let rounds = interleaved(options.rounds, &[&ours, &theirs])?;
    let what = format!("HTTP /v1/check, {policy}");
    Ok(ThroughputRow::new(what, "bare axum route", [&rounds[0], &rounds[1]], 0.85, Some(1.2)))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are small and positive")]
pub(super) fn commands(count: f64) -> usize {
    (count.round() as usize).max(1_000)
}
