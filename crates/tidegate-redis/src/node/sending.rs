//! Sending requests, those that can be one call together.

use std::{future::Future, sync::atomic::Ordering::Relaxed, time::Duration};

use futures_util::{
    FutureExt,
    future::{OptionFuture, join, join_all},
};
use redis::{RedisResult, Value, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::Driver;
use crate::{
    error::Error,
    job::Job,
    script::Source,
    stats::count,
    stopwatch,
    wire::{Call, NewKeys},
};

/// Keys outlive their use by this long, since Redis may read its clock a little before the script does.
const GRACE_MS: u32 = 100;
/// With a given time nothing says how long a replay takes.
const GIVEN_GRACE_MS: u32 = 3_600_000;
/// How long a call may be under way at the least before the connection is taken for lost, if nobody waits for it any more.
const LONGEST_CALL: Duration = Duration::from_secs(3);

/// One call that has come back.
pub(super) struct Returned {
    pub(super) jobs: Vec<Job>,
    pub(super) asked: u64,
    pub(super) result: RedisResult<Value>,
    /// Whether as many replicas have it as are waited for.
    pub(super) replicated: bool,
}

impl Driver {
    /// Sends requests, those that can be one call together.
    pub(super) fn send(
        &self,
        mut jobs: Vec<Job>,
        connection: &MultiplexedConnection,
    ) -> impl Future<Output = Vec<Returned>> + use<> {
        jobs.retain(|job| !job.is_abandoned());
        let mut calls: Vec<Vec<Job>> = Vec::new();
        for mut job in jobs {
            if self.shared.sheds(&job) {
                job.fail(Error::Overloaded);
                continue;
            }
            if !self.shared.room.allows(job.group.new_keys) {
                job.group.new_keys = NewKeys::Never;
            }
            job.group.deadline = match job.given {
                Some(given) => given.as_micros(),
                None => self.shared.clock.at(job.deadline).unwrap_or(0),
            };
            let fits = |call: &&mut Vec<Job>| {
                let other = &call[0];
                let same_slot = !self.common.is_cluster || other.slot == job.slot;
                same_slot && other.given.is_some() == job.given.is_some() && !other.asking && !other.alone
            };
            let together = if job.asking || job.alone { None } else { calls.iter_mut().find(fits) };
            match together {
                Some(call) => call.push(job),
                None => calls.push(vec![job]),
            }
        }
        for call in &calls {
            count(&self.common.counters.calls);
            self.common.counters.batched.fetch_add(call.len() as u64, Relaxed);
        }
        let source = &self.common.source;
        let longest = LONGEST_CALL.max(self.common.settings.timeout.saturating_mul(3));
        // One question behind all of them: it is about everything that was written over the connection.
        let patience = self.common.settings.timeout;
        let asked = self.common.settings.replicas.filter(|_| calls.iter().flatten().any(|job| job.group.may_write()));
        let replicas = asked.map(|replicas| timeout(longest, replicas.have_it(connection.clone(), patience)));
        let calls = calls.into_iter().map(|jobs| call(jobs, source, connection.clone(), longest));
        let answers = join(join_all(calls.collect::<Vec<_>>()), OptionFuture::from(replicas));
        answers.map(|(mut returned, replicated)| {
            let replicated = replicated.is_none_or(|in_time| in_time.unwrap_or(false));
            for call in &mut returned {
                call.replicated = replicated;
            }
            returned
        })
    }
}

/// A call about nothing: it tells the server's time.
pub(super) fn of_nothing(source: &Source) -> redis::Cmd {
    evalsha(source, &Call::new([], false, GRACE_MS))
}

fn evalsha(source: &Source, call: &Call<'_>) -> redis::Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(&source.sha).arg(call.keys.len()).arg(&call.keys).arg(&call.arguments);
    command
}

/// One call of the script.
fn call(
    jobs: Vec<Job>,
    source: &Source,
    mut connection: MultiplexedConnection,
    longest: Duration,
) -> impl Future<Output = Returned> + use<> {
    let given = jobs[0].given.is_some();
    let grace = if given { GIVEN_GRACE_MS } else { GRACE_MS };
    let command = evalsha(source, &Call::new(jobs.iter().map(|job| &job.group), given, grace));
    async move {
        let asked = stopwatch::micros();
        let asking = jobs[0].asking;
        let send = async {
            if asking {
                let mut pipeline = redis::pipe();
                pipeline.cmd("ASKING").add_command(command);
                let mut replies = connection.send_packed_commands(&pipeline, 0, 2).await?;
                replies.pop().unwrap_or(Value::Nil).extract_error()
            } else {
                connection.send_packed_command(&command).await?.extract_error()
            }
        };
        let hung = || Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        let result = timeout(longest, send).await.unwrap_or_else(|_| hung());
        Returned { jobs, asked, result, replicated: true }
    }
}
