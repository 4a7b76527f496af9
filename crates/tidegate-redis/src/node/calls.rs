//! The calls of the script: requests are sent together if one call can execute them.

use std::{future::Future, sync::atomic::Ordering::Relaxed, time::Duration};

use futures_util::{
    FutureExt,
    future::{OptionFuture, join, join_all},
};
use redis::{RedisResult, Value, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::NodeTask;
use crate::{
    error::Error,
    pending_request::PendingRequest,
    replicas::Replicas,
    script::Source,
    stats::count,
    stopwatch,
    wire::{Call, NewKeys},
};

/// Keys live this much longer than needed, because Redis may read its clock a little before the script does.
const GRACE_MS: u32 = 100;
/// Keys at given times live longer, because a replay may take long.
const GIVEN_GRACE_MS: u32 = 3_600_000;
/// Minimum timeout of a call. After the timeout the connection counts as lost.
const MIN_CALL_TIMEOUT: Duration = Duration::from_secs(3);

/// A call that was answered or failed.
pub(super) struct CompletedCall {
    pub(super) requests: Vec<PendingRequest>,
    pub(super) sent_at: u64,
    pub(super) result: RedisResult<Value>,
    /// Whether the required number of replicas has it.
    pub(super) replicated: bool,
}

impl NodeTask {
    /// Sends requests, together if one call can execute them.
    pub(super) fn send(
        &self,
        mut requests: Vec<PendingRequest>,
        connection: &MultiplexedConnection,
    ) -> impl Future<Output = Vec<CompletedCall>> + use<> {
        // A closed channel means that the caller has stopped waiting.
        requests.retain(|request| !request.reply_to.is_closed());
        let mut calls: Vec<Vec<PendingRequest>> = Vec::new();
        for mut request in requests {
            if self.state.must_shed(&request) {
                request.fail(Error::Overloaded);
                continue;
            }
            if !self.state.keyspace.allows(request.group.new_keys) {
                request.group.new_keys = NewKeys::Never;
            }
            request.group.deadline = match request.given {
                Some(given) => given.as_micros(),
                None => self.state.clock.at(request.deadline).unwrap_or(0),
            };
            let fits = |call: &&mut Vec<PendingRequest>| {
                let other = &call[0];
                let same_slot = !self.context.is_cluster || other.slot() == request.slot();
                same_slot && other.given.is_some() == request.given.is_some() && !other.asking && !other.alone
            };
            let together = if request.asking || request.alone { None } else { calls.iter_mut().find(fits) };
            match together {
                Some(call) => call.push(request),
                None => calls.push(vec![request]),
            }
        }
        for call in &calls {
            count(&self.context.counters.calls);
            self.context.counters.batched.fetch_add(call.len() as u64, Relaxed);
        }
        let source = &self.context.source;
        let call_timeout = MIN_CALL_TIMEOUT.max(self.context.settings.timeout.saturating_mul(3));
        // One WAIT after all calls covers everything that was written over the connection.
        let may_write = calls.iter().flatten().any(|request| request.group.may_write());
        let replicas = self.context.settings.replicas.filter(|_| may_write);
        let confirm = |replicas: Replicas| replicas.confirm(connection.clone(), self.context.settings.timeout);
        let replicas = replicas.map(|replicas| timeout(call_timeout, confirm(replicas)));
        let calls = calls.into_iter().map(|requests| call(requests, source, connection.clone(), call_timeout));
        let answers = join(join_all(calls.collect::<Vec<_>>()), OptionFuture::from(replicas));
        answers.map(|(mut completed, replicated)| {
            let replicated = replicated.is_none_or(|in_time| in_time.unwrap_or(false));
            for call in &mut completed {
                call.replicated = replicated;
            }
            completed
        })
    }
}

/// A call without requests: it returns the server's time.
pub(super) fn empty_call(source: &Source) -> redis::Cmd {
    evalsha(source, &Call::new([], false, GRACE_MS))
}

fn evalsha(source: &Source, call: &Call<'_>) -> redis::Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(&source.sha).arg(call.keys.len()).arg(&call.keys).arg(&call.arguments);
    command
}

/// One call of the script.
fn call(
    requests: Vec<PendingRequest>,
    source: &Source,
    mut connection: MultiplexedConnection,
    call_timeout: Duration,
) -> impl Future<Output = CompletedCall> + use<> {
    let given = requests[0].given.is_some();
    let grace = if given { GIVEN_GRACE_MS } else { GRACE_MS };
    let command = evalsha(source, &Call::new(requests.iter().map(|request| &request.group), given, grace));
    async move {
        let sent_at = stopwatch::micros();
        let asking = requests[0].asking;
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
        let timed_out = || Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        let result = timeout(call_timeout, send).await.unwrap_or_else(|_| timed_out());
        CompletedCall { requests, sent_at, result, replicated: true }
    }
}
