//! [`Load`]: many tasks that ask a store for one decision after the other.

use std::{
    array,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tidegate::{Decision, OnStoreFailure, Op, Policy, Timestamp};
use tidegate_redis::{Error, RedisStore, RedisStoreBuilder};
use tokio::{runtime::Runtime, task::JoinHandle};

use crate::{
    patience::wait_until,
    subjects::{SUBJECTS, TIGHT_MAX, cost, key, local_half, roomy, tight},
};

const TASKS: usize = 128;
/// Between two decisions of one task: a steady stream, whether decisions take microseconds or their whole timeout.
const PAUSE: Duration = Duration::from_millis(8);
/// Decisions by Redis on each subject before the scenario goes on.
const PROCEED: u64 = 500;

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Roomy,
    Tight,
    /// An inspection of a key that nobody charges: unlike a decision it fails where Redis does not answer, and says why.
    Look,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Admitted(Timestamp),
    Denied,
    /// Decided without Redis: whether it was let through, and when, if it was counted in this process.
    Degraded(bool, Option<Timestamp>),
    /// A look that was answered.
    Seen,
    Failed(Error),
}

#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) subject: usize,
    pub(crate) asked: Asked,
    pub(crate) units: u64,
    pub(crate) began: Instant,
    pub(crate) took: Duration,
    pub(crate) outcome: Outcome,
}

/// What the scenario waits for.
#[derive(Debug, Default)]
struct Progress {
    stopped: AtomicBool,
    issued: AtomicU64,
    degraded: AtomicU64,
    answered: [AtomicU64; SUBJECTS],
    tight_units: [AtomicU64; SUBJECTS],
}

/// Tasks that ask until they are told to stop.
pub(crate) struct Load {
    runtime: Runtime,
    pub(crate) store: RedisStore,
    progress: Arc<Progress>,
    tasks: Vec<JoinHandle<Vec<Record>>>,
}

/// A run that is over.
pub(crate) struct Ran {
    pub(crate) runtime: Runtime,
    pub(crate) store: RedisStore,
    pub(crate) issued: u64,
    pub(crate) records: Vec<Record>,
}

impl Load {
    /// Begins to ask as soon as Redis is connected.
    pub(crate) fn start(store: RedisStoreBuilder) -> Self {
        Self::begin(store, true)
    }

    /// Begins to ask at once.
    pub(crate) fn start_without_redis(store: RedisStoreBuilder) -> Self {
        Self::begin(store, false)
    }

    fn begin(store: RedisStoreBuilder, wait: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let store = {
            let _inside = runtime.enter();
            store.connect().expect("a store")
        };
        if wait {
            runtime.block_on(store.ready());
        }
        let progress = Arc::new(Progress::default());
        let task = |number| runtime.spawn(ask_on(number, store.clone(), Arc::clone(&progress)));
        let tasks = (0..TASKS).map(task).collect();
        Self { runtime, store, progress, tasks }
    }

    /// Waits until Redis has decided so many more requests of every subject, and has filled the tight window twice.
    #[track_caller]
    pub(crate) fn proceed(&self) {
        let now = |counters: &[AtomicU64; SUBJECTS]| array::from_fn::<_, SUBJECTS, _>(|i| counters[i].load(Relaxed));
        let (answered, tight) = (now(&self.progress.answered), now(&self.progress.tight_units));
        wait_until("redis to decide", || {
            let more = |now: [u64; SUBJECTS], then: [u64; SUBJECTS], n| now.iter().zip(then).all(|(a, b)| *a >= b + n);
            more(now(&self.progress.answered), answered, PROCEED)
                && more(now(&self.progress.tight_units), tight, 2 * TIGHT_MAX)
        });
    }

    /// Waits until so many more decisions were issued, whoever made them.
    #[track_caller]
    pub(crate) fn ask_more(&self, decisions: u64) {
        let issued = self.progress.issued.load(Relaxed);
        wait_until("decisions to be asked for", || self.progress.issued.load(Relaxed) >= issued + decisions);
    }

    /// Waits until so many more decisions were made without Redis.
    #[track_caller]
    pub(crate) fn suffer(&self, decisions: u64) {
        let degraded = self.progress.degraded.load(Relaxed);
        wait_until("decisions without redis", || self.progress.degraded.load(Relaxed) >= degraded + decisions);
    }

    /// Tells the tasks to stop, and waits for them.
    pub(crate) fn stop(self) -> Ran {
        self.progress.stopped.store(true, Relaxed);
        let mut records = Vec::new();
        for task in self.tasks {
            records.append(&mut self.runtime.block_on(task).expect("no task panics"));
        }
        Ran { issued: self.progress.issued.load(Relaxed), runtime: self.runtime, store: self.store, records }
    }
}

async fn ask_on(number: usize, store: RedisStore, progress: Arc<Progress>) -> Vec<Record> {
    let (roomy, tight) = (roomy(), tight());
    let keys: [_; SUBJECTS] = array::from_fn(key);
    let nobody = key(SUBJECTS + number);
    let mut records = Vec::new();
    let mut turn = number;
    while !progress.stopped.load(Relaxed) {
        turn += 1;
        let subject = turn / 8 % SUBJECTS;
        let (asked, units) = match turn % 8 {
            0 => (Asked::Look, 0),
            1..=3 => (Asked::Roomy, 1),
            other => (Asked::Tight, other as u64 % 3 + 1),
        };
        progress.issued.fetch_add(1, Relaxed);
        let began = Instant::now();
        let outcome = match asked {
            Asked::Look => look(&store, &roomy, &nobody).await,
            Asked::Roomy => {
                let choice = if turn.is_multiple_of(2) { OnStoreFailure::Open } else { OnStoreFailure::Closed };
                told(&store.decide(Op::Check, &roomy, &keys[subject], cost(units), choice).await)
            }
            Asked::Tight => told(&store.decide(Op::Check, &tight, &keys[subject], cost(units), local_half()).await),
        };
        let took = began.elapsed();
        match &outcome {
            Outcome::Degraded(..) => progress.degraded.fetch_add(1, Relaxed),
            Outcome::Admitted(_) | Outcome::Denied => {
                if asked == Asked::Tight && outcome != Outcome::Denied {
                    progress.tight_units[subject].fetch_add(units, Relaxed);
                }
                progress.answered[subject].fetch_add(1, Relaxed)
            }
            Outcome::Seen | Outcome::Failed(_) => 0,
        };
        records.push(Record { subject, asked, units, began, took, outcome });
        tokio::time::sleep(PAUSE).await;
    }
    records
}

fn told(decision: &Decision) -> Outcome {
    match (decision.is_degraded(), decision.is_allowed()) {
        (true, allowed) => Outcome::Degraded(allowed, decision.charged_at()),
        (false, true) => Outcome::Admitted(decision.charged_at().expect("an admitted check is charged")),
        (false, false) => Outcome::Denied,
    }
}

async fn look(store: &RedisStore, policy: &Policy, nobody: &tidegate::Key<'_>) -> Outcome {
    match store.inspect(policy, nobody).await {
        Ok(found) => {
            assert_eq!(found, None, "nobody charges this key");
            Outcome::Seen
        }
        Err(trouble) => Outcome::Failed(trouble),
    }
}
