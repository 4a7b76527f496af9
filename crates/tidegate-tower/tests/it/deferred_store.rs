//! [`DeferredStore`]: a limiter whose answers are never ready at once, as those of a store over a network.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tidegate::{
    Clock, Cost, Decision, Decisions, Hold, Inspection, Key, Limiter, Op, Policy, PolicySource, Refund, ReservationId,
    Reserved, ReservedAll, Settled, Spend, Store, StoreError, Timestamp,
};
use tokio::sync::Semaphore;

/// Each operation is carried out at once, and answered when the gate is open. A commit is carried out then.
#[derive(Debug, Clone)]
pub(crate) struct DeferredStore {
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) gate: Arc<Semaphore>,
    /// The number of commits that get no answer and do nothing.
    pub(crate) lost_commits: Arc<AtomicUsize>,
    /// Whether no operation is carried out or answered.
    pub(crate) fails: Arc<AtomicBool>,
    /// The number of decisions on several requests that were asked for.
    pub(crate) asked: Arc<AtomicUsize>,
    /// Whether no reservation is made or answered.
    pub(crate) fails_to_reserve: Arc<AtomicBool>,
}

fn broken() -> StoreError {
    StoreError::Unavailable { cause: "broken", message: "no answer".to_owned() }
}

impl DeferredStore {
    /// A store that answers soon.
    pub(crate) fn new(limiter: Arc<Limiter>) -> Self {
        Self { gate: Arc::new(Semaphore::new(1)), ..Self::silent(limiter) }
    }

    /// A store that answers nothing until its gate has a permit.
    pub(crate) fn silent(limiter: Arc<Limiter>) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let (lost_commits, fails, asked, fails_to_reserve) = Default::default();
        Self { limiter, gate, lost_commits, fails, asked, fails_to_reserve }
    }

    async fn after<T>(&self, answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.fails.load(SeqCst) {
            return Err(broken());
        }
        let answer = answer.await;
        tokio::task::yield_now().await;
        drop(self.gate.acquire().await);
        answer
    }
}

impl Store for DeferredStore {
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        self.after(Store::decide(&self.limiter, op, policy, key, cost)).await
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        self.asked.fetch_add(1, SeqCst);
        self.after(Store::decide_all(&self.limiter, op, spends)).await
    }

    async fn refund(&self, policy: &Policy, key: &Key<'_>, cost: Cost, at: Timestamp) -> Result<Refund, StoreError> {
        self.after(Store::refund(&self.limiter, policy, key, cost, at)).await
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        self.after(Store::reset(&self.limiter, policy, key)).await
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        self.after(Store::inspect(&self.limiter, policy, key)).await
    }

    async fn reserve(&self, policy: &Policy, key: &Key<'_>, cost: Cost, hold: Hold) -> Result<Reserved, StoreError> {
        self.after(Store::reserve(&self.limiter, policy, key, cost, hold)).await
    }

    async fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, StoreError> {
        if self.fails_to_reserve.load(SeqCst) {
            return Err(broken());
        }
        self.after(Store::reserve_all(&self.limiter, spends, hold)).await
    }

    async fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        tokio::task::yield_now().await;
        drop(self.gate.acquire().await);
        let lose = |commits: usize| commits.checked_sub(1);
        if self.lost_commits.fetch_update(SeqCst, SeqCst, lose).is_ok() {
            return Err(StoreError::Unsupported { operation: "commit" });
        }
        self.after(Store::commit(&self.limiter, id, actual, policies)).await
    }

    async fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        self.after(Store::renew(&self.limiter, id, ttl, policies)).await
    }

    fn clock(&self) -> &Clock {
        self.limiter.clock()
    }
}
