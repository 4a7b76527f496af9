//! [`GuardedStore`]: a store of somebody else, which can neither delay the service without end nor stop it by a panic.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures_util::FutureExt as _;
use tidegate::{
    ActiveOverride, AnyStore, Clock, Cost, Decision, Decisions, Hold, Inspection, Key, Lease, Leased, Op, Override,
    Policy, PolicySource, Refund, ReservationId, Reserved, ReservedAll, Settled, Spend, Store, StoreError, StoreReport,
    Timestamp,
};

/// How long operations other than decisions may take: an operator waits for them, a list may be long, and nothing can
/// replace a commit.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(5);

/// A store whose answers have a deadline, and whose panics are errors of one operation.
pub(crate) struct GuardedStore<S> {
    store: S,
    /// How long a decision may take.
    timeout: Duration,
}

impl<S: Store> GuardedStore<S> {
    pub(crate) fn new(store: S, timeout: Duration) -> Self {
        Self { store, timeout }
    }
}

async fn within<T>(
    timeout: Duration,
    answer: impl Future<Output = Result<T, StoreError>> + Send,
) -> Result<T, StoreError> {
    match tokio::time::timeout(timeout, AssertUnwindSafe(answer).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => Err(panicked(&*panic)),
        Err(_) => Err(StoreError::Unavailable {
            cause: "timeout",
            message: format!("the store did not answer within {timeout:?}"),
        }),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> StoreError {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = text.map_or_else(|| "the store panicked".to_owned(), |text| format!("the store panicked: {text}"));
    StoreError::Unavailable { cause: "panic", message }
}

/// Whether a metrics system accepts the name of a metric or of a label.
fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

impl<S: Store> Store for GuardedStore<S> {
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        within(self.timeout, self.store.decide(op, policy, key, cost)).await
    }

    fn decide_now(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        catch_unwind(AssertUnwindSafe(|| self.store.decide_now(op, policy, key, cost)))
            .unwrap_or_else(|panic| Err(panicked(&*panic)))
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        within(self.timeout, self.store.decide_all(op, spends)).await
    }

    async fn refund(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Result<Refund, StoreError> {
        within(OPERATION_TIMEOUT, self.store.refund(policy, key, cost, charged_at)).await
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        within(OPERATION_TIMEOUT, self.store.reset(policy, key)).await
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        within(OPERATION_TIMEOUT, self.store.inspect(policy, key)).await
    }

    async fn set_override(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        new: Override,
    ) -> Result<Option<Override>, StoreError> {
        within(OPERATION_TIMEOUT, self.store.set_override(policy, key, new)).await
    }

    async fn remove_override(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Override>, StoreError> {
        within(OPERATION_TIMEOUT, self.store.remove_override(policy, key)).await
    }

    async fn override_of(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<ActiveOverride>, StoreError> {
        within(OPERATION_TIMEOUT, self.store.override_of(policy, key)).await
    }

    async fn overrides(&self, policy: &Policy) -> Result<Vec<ActiveOverride>, StoreError> {
        within(OPERATION_TIMEOUT, self.store.overrides(policy)).await
    }

    async fn reserve(&self, policy: &Policy, key: &Key<'_>, cost: Cost, hold: Hold) -> Result<Reserved, StoreError> {
        within(self.timeout, self.store.reserve(policy, key, cost, hold)).await
    }

    async fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, StoreError> {
        within(self.timeout, self.store.reserve_all(spends, hold)).await
    }

    async fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        within(OPERATION_TIMEOUT, self.store.commit(id, actual, policies)).await
    }

    async fn release(&self, id: &ReservationId, policies: &dyn PolicySource) -> Result<Settled, StoreError> {
        within(OPERATION_TIMEOUT, self.store.release(id, policies)).await
    }

    async fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        within(OPERATION_TIMEOUT, self.store.renew(id, ttl, policies)).await
    }

    async fn lease(&self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, StoreError> {
        within(self.timeout, self.store.lease(policy, key, lease)).await
    }

    async fn settle(&self, id: &ReservationId, spent: u64, policies: &dyn PolicySource) -> Result<Settled, StoreError> {
        within(OPERATION_TIMEOUT, self.store.settle(id, spent, policies)).await
    }

    async fn close(&self) {
        // A foreign store must not prevent the service from stopping.
        let _ = tokio::time::timeout(OPERATION_TIMEOUT, AssertUnwindSafe(self.store.close()).catch_unwind()).await;
    }

    fn at_time(&self, time: Timestamp) -> Option<AnyStore> {
        self.store.at_time(time)
    }

    fn is_immediate(&self) -> bool {
        self.store.is_immediate()
    }

    fn decide_locally(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Option<Decision> {
        let decision = catch_unwind(AssertUnwindSafe(|| self.store.decide_locally(op, policy, key, cost)));
        // A store that panicked is asked again, and that error is reported.
        decision.unwrap_or(None)
    }

    fn has_leases(&self) -> bool {
        self.store.has_leases()
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn clock(&self) -> &Clock {
        self.store.clock()
    }

    fn report(&self) -> StoreReport {
        let Ok(mut report) = catch_unwind(AssertUnwindSafe(|| self.store.report())) else {
            let mut report = StoreReport::default();
            report.answers = false;
            return report;
        };
        // One invalid name would make all metrics of the service unreadable.
        report.metrics.retain(|metric| is_name(metric.name) && (metric.label.is_empty() || is_name(metric.label)));
        report
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_comes_is_an_error_at_the_deadline() {
        let start = Instant::now();
        let error = within(OPERATION_TIMEOUT, pending::<Result<(), StoreError>>()).await.expect_err("no answer");
        assert_eq!(start.elapsed().as_secs(), OPERATION_TIMEOUT.as_secs());
        assert_eq!(error.cause(), "timeout");
        assert_eq!(error.to_string(), "the store did not answer within 5s");
    }
}
