//! One round: as many decisions as possible in a given time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;
use cpu_time::ProcessTime;
use tokio::task::JoinSet;

use super::caller::{Caller, TaskPlan};
use super::throughput::Comparison;
use crate::measure::as_f64;
use crate::stopwatch::now;
use crate::tally::Tally;

/// The results of one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    tally: Tally,
    /// How long it took.
    pub(super) seconds: f64,
    /// Processor time of the servers.
    pub(super) server_seconds: f64,
    /// Processor time of this process.
    pub(super) client_seconds: f64,
    /// Time within scripts, as the servers count it.
    pub(super) script_seconds: f64,
}

impl Round {
    pub(super) fn per_second(&self) -> f64 {
        as_f64(self.tally.decisions) / self.seconds
    }

    pub(super) fn allowed(&self) -> f64 {
        as_f64(self.tally.allowed) / as_f64(self.tally.decisions)
    }

    /// A time divided by the number of decisions, in microseconds.
    pub(super) fn per_decision(&self, seconds: f64) -> f64 {
        seconds * 1e6 / as_f64(self.tally.decisions)
    }
}

impl Comparison<'_> {
    /// Runs a caller for `length`.
    pub(super) async fn round(&self, caller: &Caller, length: Duration) -> Result<Round> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut running = JoinSet::new();
        let before = self.servers.usage();
        let client = ProcessTime::now();
        let began = now();
        for task in 0..caller.tasks(self.tasks) {
            let at = rand::random_range(0..self.keys.len());
            let plan = TaskPlan { keys: Arc::clone(self.keys), at, stop: Arc::clone(&stop) };
            running.spawn(caller.clone().run(task, plan));
        }
        tokio::time::sleep(length).await;
        stop.store(true, Relaxed);
        let tallies = running.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
        let seconds = (now() - began).as_secs_f64();
        let client_seconds = client.elapsed().as_secs_f64();
        let after = self.servers.usage();
        Ok(Round {
            tally: tallies.into_iter().sum(),
            seconds,
            server_seconds: after.processor - before.processor,
            client_seconds,
            script_seconds: after.script - before.script,
        })
    }
}
