//! [`Load`]: many tasks that request one decision after the other.

use std::{
    array,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tidegate::{Decision, OnStoreFailure, Op, Policy, Store as _, StoreError, Timestamp};
use tidegate_redis::{RedisStore, RedisStoreBuilder};
use tokio::{runtime::Runtime, task::JoinHandle};

use crate::{
    subjects::{SUBJECTS, TIGHT_MAX, cost, key, local_half, roomy, tight},
    waiting::wait_until,
};

const TASKS: usize = 128;
/// Between two decisions of one task: a steady stream, whether decisions take microseconds or their whole timeout.
const PAUSE: Duration = Duration::from_millis(8);
/// Decisions by Redis on each subject before the scenario continues.
const PROCEED: u64 = 500;

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Roomy,
    Tight,
    /// An inspection of a key without charges. Unlike a decision it returns an error if Redis does not answer.
    Inspect,
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Admitted(Timestamp),
    Denied,
    /// Decided without Redis: whether it was admitted, and when, if it was counted in this process.
    Degraded(bool, Option<Timestamp>),
    /// An inspection that was answered.
    Inspected,
    Failed(StoreError),
}

#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) subject: usize,
    pub(crate) kind: RequestKind,
    pub(crate) units: u64,
    pub(crate) began: Instant,
    pub(crate) took: Duration,
    pub(crate) outcome: Outcome,
}

/// The counters that the scenario waits for.
#[derive(Debug, Default)]
struct Progress {
    stopped: AtomicBool,
    issued: AtomicU64,
    degraded: AtomicU64,
    answered: [AtomicU64; SUBJECTS],
    tight_units: [AtomicU64; SUBJECTS],
}

/// Tasks that send requests until they are stopped.
pub(crate) struct Load {
    runtime: Runtime,
    pub(crate) store: RedisStore,
    progress: Arc<Progress>,
    tasks: Vec<JoinHandle<Vec<Record>>>,
}

/// A completed run.
pub(crate) struct CompletedRun {
    pub(crate) runtime: Runtime,
    pub(crate) store: RedisStore,
    pub(crate) issued: u64,
    pub(crate) records: Vec<Record>,
}

impl Load {
    /// Starts as soon as Redis is connected.
    pub(crate) fn start(store: RedisStoreBuilder) -> Self {
        Self::begin(store, true)
    }

    /// Starts at once.
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
        let task = |number| runtime.spawn(send_requests(number, store.clone(), Arc::clone(&progress)));
        let tasks = (0..TASKS).map(task).collect();
        Self { runtime, store, progress, tasks }
    }

    /// Waits until Redis has decided [`PROCEED`] more requests of every subject, and has filled the tight window twice.
    #[track_caller]
    pub(crate) fn wait_for_progress(&self) {
        let now = |counters: &[AtomicU64; SUBJECTS]| array::from_fn::<_, SUBJECTS, _>(|i| counters[i].load(Relaxed));
        let (answered, tight) = (now(&self.progress.answered), now(&self.progress.tight_units));
        wait_until("redis to decide", || {
            let more = |now: [u64; SUBJECTS], then: [u64; SUBJECTS], n| now.iter().zip(then).all(|(a, b)| *a >= b + n);
            more(now(&self.progress.answered), answered, PROCEED)
                && more(now(&self.progress.tight_units), tight, 2 * TIGHT_MAX)
        });
    }

    /// Waits until this many more decisions were requested.
    #[track_caller]
    pub(crate) fn wait_for_requests(&self, decisions: u64) {
        let issued = self.progress.issued.load(Relaxed);
        wait_until("decisions to be requested", || self.progress.issued.load(Relaxed) >= issued + decisions);
    }

    /// Waits until this many more decisions were made without Redis.
    #[track_caller]
    pub(crate) fn wait_for_degraded(&self, decisions: u64) {
        let degraded = self.progress.degraded.load(Relaxed);
        wait_until("decisions without redis", || self.progress.degraded.load(Relaxed) >= degraded + decisions);
    }

    /// Stops the tasks, and waits for them.
    pub(crate) fn stop(self) -> CompletedRun {
        self.progress.stopped.store(true, Relaxed);
        let mut records = Vec::new();
        for task in self.tasks {
            records.append(&mut self.runtime.block_on(task).expect("no task panics"));
        }
        CompletedRun { issued: self.progress.issued.load(Relaxed), runtime: self.runtime, store: self.store, records }
    }
}

async fn send_requests(number: usize, store: RedisStore, progress: Arc<Progress>) -> Vec<Record> {
    let (roomy, tight) = (roomy(), tight());
    let keys: [_; SUBJECTS] = array::from_fn(key);
    let unused_key = key(SUBJECTS + number);
    let mut records = Vec::new();
    let mut turn = number;
    while !progress.stopped.load(Relaxed) {
        turn += 1;
        let subject = turn / 8 % SUBJECTS;
        let (kind, units) = match turn % 8 {
            0 => (RequestKind::Inspect, 0),
            1..=3 => (RequestKind::Roomy, 1),
            other => (RequestKind::Tight, other as u64 % 3 + 1),
        };
        progress.issued.fetch_add(1, Relaxed);
        let began = Instant::now();
        let outcome = match kind {
            RequestKind::Inspect => inspect_once(&store, &roomy, &unused_key).await,
            RequestKind::Roomy => {
                let choice = if turn.is_multiple_of(2) { OnStoreFailure::Open } else { OnStoreFailure::Closed };
                outcome_of(
                    &store
                        .decide(Op::Check, &roomy.clone().with_on_store_failure(choice), &keys[subject], cost(units))
                        .await
                        .expect("a decision"),
                )
            }
            RequestKind::Tight => outcome_of(
                &store
                    .decide(Op::Check, &tight.clone().with_on_store_failure(local_half()), &keys[subject], cost(units))
                    .await
                    .expect("a decision"),
            ),
        };
        let took = began.elapsed();
        match &outcome {
            Outcome::Degraded(..) => progress.degraded.fetch_add(1, Relaxed),
            Outcome::Admitted(_) | Outcome::Denied => {
                if kind == RequestKind::Tight && outcome != Outcome::Denied {
                    progress.tight_units[subject].fetch_add(units, Relaxed);
                }
                progress.answered[subject].fetch_add(1, Relaxed)
            }
            Outcome::Inspected | Outcome::Failed(_) => 0,
        };
        records.push(Record { subject, kind, units, began, took, outcome });
        tokio::time::sleep(PAUSE).await;
    }
    records
}

fn outcome_of(decision: &Decision) -> Outcome {
    match (decision.is_degraded(), decision.is_allowed()) {
        (true, allowed) => Outcome::Degraded(allowed, decision.charged_at()),
        (false, true) => Outcome::Admitted(decision.charged_at().expect("an admitted check is charged")),
        (false, false) => Outcome::Denied,
    }
}

async fn inspect_once(store: &RedisStore, policy: &Policy, unused_key: &tidegate::Key<'_>) -> Outcome {
    match store.inspect(policy, unused_key).await {
        Ok(found) => {
            assert_eq!(found, None, "no request charges this key");
            Outcome::Inspected
        }
        Err(error) => Outcome::Failed(error),
    }
}
