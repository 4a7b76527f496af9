//! The caller of decisions: our store, or a rival's script with one of the call methods.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Result, ensure};
use redis::aio::ConnectionLike;
use tidegate::{Cost, Key, Policy, Store as _};
use tidegate_redis::RedisStore;

use super::rival::{Rival, ScriptReply};
use super::servers::RivalConnection;
use crate::tally::Tally;

/// How a rival is called with a given number of concurrent decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallMethod {
    /// One task for each decision, spread over this number of connections. A connection sends waiting calls together.
    Tasks { connections: usize },
    /// Pipelines of this number of calls over one connection, with as few tasks as possible.
    Pipelines { of: usize },
}

impl fmt::Display for CallMethod {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tasks { connections: 1 } => write!(out, "tasks, 1 connection"),
            Self::Tasks { connections } => write!(out, "tasks, {connections} connections"),
            Self::Pipelines { of } => write!(out, "pipelines of {of}"),
        }
    }
}

/// The caller of decisions.
#[derive(Clone)]
pub(super) enum Caller {
    Ours { store: RedisStore, policy: Arc<Policy> },
    Theirs { rival: Arc<Rival>, connections: Vec<RivalConnection>, method: CallMethod },
}

/// The keys of a task, repeated in order until `stop` is set.
#[derive(Clone)]
pub(super) struct TaskPlan {
    pub(super) keys: Arc<Vec<String>>,
    pub(super) at: usize,
    pub(super) stop: Arc<AtomicBool>,
}

impl TaskPlan {
    fn next(&mut self) -> usize {
        let at = self.at;
        self.at = if at + 1 == self.keys.len() { 0 } else { at + 1 };
        at
    }

    fn is_running(&self) -> bool {
        !self.stop.load(Relaxed)
    }
}

impl Caller {
    /// The number of tasks for this number of concurrent decisions.
    pub(super) fn tasks(&self, concurrent: usize) -> usize {
        match self {
            Self::Theirs { method: CallMethod::Pipelines { of }, .. } => concurrent / of,
            _ => concurrent,
        }
    }

    /// Runs the plan as the task of this number.
    pub(super) async fn run(self, task: usize, plan: TaskPlan) -> Result<Tally> {
        match self {
            Self::Ours { store, policy } => ours(&store, &policy, plan).await,
            Self::Theirs { rival, connections, method } => match connections[task % connections.len()].clone() {
                RivalConnection::Server(connection) => theirs(&rival, connection, method, plan).await,
                RivalConnection::Cluster(connection) => theirs(&rival, connection, method, plan).await,
            },
        }
    }
}

async fn ours(store: &RedisStore, policy: &Policy, mut plan: TaskPlan) -> Result<Tally> {
    let mut tally = Tally::default();
    while plan.is_running() {
        let at = plan.next();
        let decision = store.check(policy, &Key::new(&plan.keys[at])?, Cost::ONE).await?;
        ensure!(!decision.is_degraded(), "Redis did not make a decision: {:?}", store.stats().errors);
        tally.decisions += 1;
        tally.allowed += usize::from(decision.is_allowed());
    }
    Ok(tally)
}

async fn theirs(
    rival: &Rival,
    mut connection: impl ConnectionLike,
    method: CallMethod,
    mut plan: TaskPlan,
) -> Result<Tally> {
    let mut tally = Tally::default();
    while plan.is_running() {
        match method {
            CallMethod::Tasks { .. } => {
                let at = plan.next();
                let reply: ScriptReply = rival.command(&plan.keys[at]).query_async(&mut connection).await?;
                tally.decisions += 1;
                tally.allowed += usize::from(reply.0 == 1);
            }
            CallMethod::Pipelines { of } => {
                let mut pipeline = redis::Pipeline::with_capacity(of);
                for _ in 0..of {
                    let at = plan.next();
                    pipeline.add_command(rival.command(&plan.keys[at]));
                }
                let replies: Vec<ScriptReply> = pipeline.query_async(&mut connection).await?;
                tally.decisions += replies.len();
                tally.allowed += replies.iter().filter(|reply| reply.0 == 1).count();
            }
        }
    }
    Ok(tally)
}
