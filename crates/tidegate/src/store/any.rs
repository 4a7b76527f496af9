//! [`AnyStore`]: a store whose type is known only at run time.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use super::{Store, StoreError, StoreReport, now_or_never};
use crate::{
    ActiveOverride, Clock, Cost, Decision, Decisions, Inspection, Key, Op, Override, Policy, Refund, Spend, Timestamp,
};

/// A store whose type is known only at run time: chosen by a setting, for example.
///
/// It is cheap to clone. The decisions of an [immediate](Store::is_immediate) store allocate nothing. Every other
/// operation allocates one future.
#[derive(Clone)]
pub struct AnyStore(Arc<dyn DynStore>);

impl AnyStore {
    /// Hides the type of `store`.
    pub fn new(store: impl Store + 'static) -> Self {
        Self(Arc::new(store))
    }
}

impl fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyStore").field(&self.0.report().kind).finish()
    }
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// [`Store`] with boxed futures, and decisions without one for immediate stores.
trait DynStore: Send + Sync {
    fn decide_now(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Option<Result<Decision, StoreError>>;
    fn decide<'a>(&'a self, op: Op, policy: &'a Policy, key: &'a Key<'_>, cost: Cost) -> Answer<'a, Decision>;
    fn decide_all_now(&self, op: Op, spends: &[Spend<'_>]) -> Option<Result<Decisions, StoreError>>;
    fn decide_all<'a>(&'a self, op: Op, spends: &'a [Spend<'_>]) -> Answer<'a, Decisions>;
    fn refund<'a>(
        &'a self,
        policy: &'a Policy,
        key: &'a Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Answer<'a, Refund>;
    fn reset<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>) -> Answer<'a, bool>;
    fn inspect<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>) -> Answer<'a, Option<Inspection>>;
    fn set_override<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>, by: Override) -> Answer<'a, Option<Override>>;
    fn remove_override<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>) -> Answer<'a, Option<Override>>;
    fn override_of<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>) -> Answer<'a, Option<ActiveOverride>>;
    fn overrides<'a>(&'a self, policy: &'a Policy) -> Answer<'a, Vec<ActiveOverride>>;
    fn at_time(&self, time: Timestamp) -> Option<AnyStore>;
    fn is_immediate(&self) -> bool;
    fn is_shared(&self) -> bool;
    fn clock(&self) -> &Clock;
    fn report(&self) -> StoreReport;
}

impl<S: Store> DynStore for S {
    #[inline]
    fn decide_now(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Option<Result<Decision, StoreError>> {
        // The operation is never started again: it may have been carried out.
        let decide = || now_or_never(Store::decide(self, op, policy, key, cost)).unwrap_or(Err(StoreError::NOT_READY));
        Store::is_immediate(self).then(decide)
    }

    fn decide<'a>(&'a self, op: Op, policy: &'a Policy, key: &'a Key<'_>, cost: Cost) -> Answer<'a, Decision> {
        Box::pin(Store::decide(self, op, policy, key, cost))
    }

    fn decide_all_now(&self, op: Op, spends: &[Spend<'_>]) -> Option<Result<Decisions, StoreError>> {
        let decide = || now_or_never(Store::decide_all(self, op, spends)).unwrap_or(Err(StoreError::NOT_READY));
        Store::is_immediate(self).then(decide)
    }

    fn decide_all<'a>(&'a self, op: Op, spends: &'a [Spend<'_>]) -> Answer<'a, Decisions> {
        Box::pin(Store::decide_all(self, op, spends))
    }

    fn refund<'a>(
        &'a self,
        policy: &'a Policy,
        key: &'a Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Answer<'a, Refund> {
        Box::pin(Store::refund(self, policy, key, cost, charged_at))
    }

    fn reset<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>) -> Answer<'a, bool> {
        Box::pin(Store::reset(self, policy, key))
    }

    fn inspect<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>) -> Answer<'a, Option<Inspection>> {
        Box::pin(Store::inspect(self, policy, key))
    }

    fn set_override<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>, by: Override) -> Answer<'a, Option<Override>> {
        Box::pin(Store::set_override(self, policy, key, by))
    }

    fn remove_override<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>) -> Answer<'a, Option<Override>> {
        Box::pin(Store::remove_override(self, policy, key))
    }

    fn override_of<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>) -> Answer<'a, Option<ActiveOverride>> {
        Box::pin(Store::override_of(self, policy, key))
    }

    fn overrides<'a>(&'a self, policy: &'a Policy) -> Answer<'a, Vec<ActiveOverride>> {
        Box::pin(Store::overrides(self, policy))
    }

    fn at_time(&self, time: Timestamp) -> Option<AnyStore> {
        Store::at_time(self, time)
    }

    fn is_immediate(&self) -> bool {
        Store::is_immediate(self)
    }

    fn is_shared(&self) -> bool {
        Store::is_shared(self)
    }

    fn clock(&self) -> &Clock {
        Store::clock(self)
    }

    fn report(&self) -> StoreReport {
        Store::report(self)
    }
}

impl Store for AnyStore {
    #[inline]
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        match self.0.decide_now(op, policy, key, cost) {
            Some(answer) => answer,
            None => self.0.decide(op, policy, key, cost).await,
        }
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        match self.0.decide_all_now(op, spends) {
            Some(answer) => answer,
            None => self.0.decide_all(op, spends).await,
        }
    }

    async fn refund(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Result<Refund, StoreError> {
        self.0.refund(policy, key, cost, charged_at).await
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        self.0.reset(policy, key).await
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        self.0.inspect(policy, key).await
    }

    async fn set_override(&self, policy: &Policy, key: &Key<'_>, by: Override) -> Result<Option<Override>, StoreError> {
        self.0.set_override(policy, key, by).await
    }

    async fn remove_override(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Override>, StoreError> {
        self.0.remove_override(policy, key).await
    }

    async fn override_of(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<ActiveOverride>, StoreError> {
        self.0.override_of(policy, key).await
    }

    async fn overrides(&self, policy: &Policy) -> Result<Vec<ActiveOverride>, StoreError> {
        self.0.overrides(policy).await
    }

    fn at_time(&self, time: Timestamp) -> Option<AnyStore> {
        self.0.at_time(time)
    }

    #[inline]
    fn is_immediate(&self) -> bool {
        self.0.is_immediate()
    }

    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    fn clock(&self) -> &Clock {
        self.0.clock()
    }

    fn report(&self) -> StoreReport {
        self.0.report()
    }
}
