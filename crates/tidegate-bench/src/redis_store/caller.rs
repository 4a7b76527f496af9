//! Who decides: our store, or a rival's script in one of the ways to call it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Result, ensure};
use redis::aio::ConnectionLike;
use tidegate::{Cost, Key, Policy, Store as _};
use tidegate_redis::RedisStore;

use super::rival::{Rival, Verdict};
use super::site::Links;

/// How a rival is called, with so many decisions under way in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By as many tasks, shared out among so many connections. A connection sends what waits in one go.
    Tasks { connections: usize },
    /// In pipelines of so many calls over one connection, by as few tasks as that takes.
    Pipelines { of: usize },
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tasks { connections: 1 } => write!(out, "tasks, 1 connection"),
            Self::Tasks { connections } => write!(out, "tasks, {connections} connections"),
            Self::Pipelines { of } => write!(out, "pipelines of {of}"),
        }
    }
}

/// Who decides.
#[derive(Clone)]
pub(super) enum Caller {
    Ours { store: RedisStore, policy: Arc<Policy> },
    Theirs { rival: Arc<Rival>, links: Links, way: Way },
}

/// What a task has done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) decisions: usize,
    pub(super) allowed: usize,
}

/// Keys that a task asks for, one after the other and then from the beginning, until it is told to stop.
#[derive(Clone)]
pub(super) struct Errand {
    pub(super) keys: Arc<Vec<String>>,
    pub(super) at: usize,
    pub(super) stop: Arc<AtomicBool>,
}

impl Errand {
    fn next(&mut self) -> usize {
        let at = self.at;
        self.at = if at + 1 == self.keys.len() { 0 } else { at + 1 };
        at
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Relaxed)
    }
}

impl Caller {
    /// How many tasks make for so many decisions under way.
    pub(super) fn tasks(&self, under_way: usize) -> usize {
        match self {
            Self::Theirs { way: Way::Pipelines { of }, .. } => under_way / of,
            _ => under_way,
        }
    }

    /// Runs an errand as the task of this number.
    pub(super) async fn run(self, task: usize, errand: Errand) -> Result<Tally> {
        match self {
            Self::Ours { store, policy } => ours(&store, &policy, errand).await,
            Self::Theirs { rival, links: Links::Server(links), way } => {
                theirs(&rival, links[task % links.len()].clone(), way, errand).await
            }
            Self::Theirs { rival, links: Links::Cluster(links), way } => {
                theirs(&rival, links[task % links.len()].clone(), way, errand).await
            }
        }
    }
}

async fn ours(store: &RedisStore, policy: &Policy, mut errand: Errand) -> Result<Tally> {
    let mut tally = Tally::default();
    while errand.goes_on() {
        let at = errand.next();
        let decision = store.check(policy, &Key::new(&errand.keys[at])?, Cost::ONE).await?;
        ensure!(!decision.is_degraded(), "Redis did not make a decision: {:?}", store.stats().errors);
        tally.decisions += 1;
        tally.allowed += usize::from(decision.is_allowed());
    }
    Ok(tally)
}

async fn theirs(rival: &Rival, mut link: impl ConnectionLike, way: Way, mut errand: Errand) -> Result<Tally> {
    let mut tally = Tally::default();
    while errand.goes_on() {
        match way {
            Way::Tasks { .. } => {
                let at = errand.next();
                let verdict: Verdict = rival.command(&errand.keys[at]).query_async(&mut link).await?;
                tally.decisions += 1;
                tally.allowed += usize::from(verdict.0 == 1);
            }
            Way::Pipelines { of } => {
                let mut pipeline = redis::Pipeline::with_capacity(of);
                for _ in 0..of {
                    let at = errand.next();
                    pipeline.add_command(rival.command(&errand.keys[at]));
                }
                let verdicts: Vec<Verdict> = pipeline.query_async(&mut link).await?;
                tally.decisions += verdicts.len();
                tally.allowed += verdicts.iter().filter(|verdict| verdict.0 == 1).count();
            }
        }
    }
    Ok(tally)
}
