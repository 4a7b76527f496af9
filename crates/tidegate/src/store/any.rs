//! [`AnyStore`]: a store whose type is known only at run time.

use std::{
    fmt,
    future::{Future, Ready, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{Store, StoreError, StoreReport, answer_now, forward_other_operations};
use crate::{
    ActiveOverride, Clock, Cost, Decision, Decisions, Hold, Inspection, Key, Lease, Leased, Op, Override, Policy,
    PolicySource, Refund, ReservationId, Reserved, ReservedAll, Settled, Spend, Timestamp,
};

/// A store whose type is known only at run time: chosen by a setting, for example.
///
/// It is cheap to clone. An operation of an [immediate](Store::is_immediate) store allocates no future. Every other
/// operation allocates one.
#[derive(Clone)]
pub struct AnyStore {
    store: Arc<dyn DynStore>,
    is_immediate: bool,
}

impl AnyStore {
    /// Hides the type of `store`.
    pub fn new(store: impl Store + 'static) -> Self {
        Self { is_immediate: store.is_immediate(), store: Arc::new(store) }
    }
}

impl fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyStore").field(&self.store.report().kind).finish()
    }
}

/// The answer to an operation: of an immediate store at once, and of any other store by a boxed future.
enum Answer<'a, T> {
    Now(Ready<Result<T, StoreError>>),
    Later(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>),
}

impl<'a, T> Answer<'a, T> {
    #[inline]
    fn of(store: &impl Store, answer: impl Future<Output = Result<T, StoreError>> + Send + 'a) -> Self {
        if store.is_immediate() { Self::Now(ready(answer_now(answer))) } else { Self::Later(Box::pin(answer)) }
    }
}

impl<T> Future for Answer<'_, T> {
    type Output = Result<T, StoreError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Now(answer) => Pin::new(answer).poll(context),
            Self::Later(answer) => answer.as_mut().poll(context),
        }
    }
}

/// [`Store`] with futures of a known type, and a decision without one for immediate stores.
trait DynStore: Send + Sync {
    /// The decision of an immediate store.
    fn decide_now(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError>;
    fn decide<'a>(&'a self, op: Op, policy: &'a Policy, key: &'a Key<'_>, cost: Cost) -> Answer<'a, Decision>;
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
    fn reserve<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>, cost: Cost, hold: Hold) -> Answer<'a, Reserved>;
    fn reserve_all<'a>(&'a self, spends: &'a [Spend<'_>], hold: Hold) -> Answer<'a, ReservedAll>;
    fn commit<'a>(
        &'a self,
        id: &'a ReservationId,
        actual: &'a [u64],
        policies: &'a dyn PolicySource,
    ) -> Answer<'a, Settled>;
    fn release<'a>(&'a self, id: &'a ReservationId, policies: &'a dyn PolicySource) -> Answer<'a, Settled>;
    fn release_detached(&self, id: &ReservationId, policies: &[Policy]);
    fn renew<'a>(&'a self, id: &'a ReservationId, ttl: Duration, policies: &'a dyn PolicySource)
    -> Answer<'a, Settled>;
    fn lease<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>, lease: &'a Lease) -> Answer<'a, Leased>;
    fn settle<'a>(&'a self, id: &'a ReservationId, spent: u64, policies: &'a dyn PolicySource) -> Answer<'a, Settled>;
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    fn at_time(&self, time: Timestamp) -> Option<AnyStore>;
    fn decide_locally(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Option<Decision>;
    fn has_leases(&self) -> bool;
    fn is_shared(&self) -> bool;
    fn clock(&self) -> &Clock;
    fn report(&self) -> StoreReport;
}

impl<S: Store> DynStore for S {
    #[inline]
    fn decide_now(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        Store::decide_now(self, op, policy, key, cost)
    }

    fn decide<'a>(&'a self, op: Op, policy: &'a Policy, key: &'a Key<'_>, cost: Cost) -> Answer<'a, Decision> {
        Answer::of(self, Store::decide(self, op, policy, key, cost))
    }

    fn decide_all<'a>(&'a self, op: Op, spends: &'a [Spend<'_>]) -> Answer<'a, Decisions> {
        Answer::of(self, Store::decide_all(self, op, spends))
    }

    fn refund<'a>(
        &'a self,
        policy: &'a Policy,
        key: &'a Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Answer<'a, Refund> {
        Answer::of(self, Store::refund(self, policy, key, cost, charged_at))
    }

    fn reset<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>) -> Answer<'a, bool> {
        Answer::of(self, Store::reset(self, policy, key))
    }

    fn inspect<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>) -> Answer<'a, Option<Inspection>> {
        Answer::of(self, Store::inspect(self, policy, key))
    }

    fn set_override<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>, by: Override) -> Answer<'a, Option<Override>> {
        Answer::of(self, Store::set_override(self, policy, key, by))
    }

    fn remove_override<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>) -> Answer<'a, Option<Override>> {
        Answer::of(self, Store::remove_override(self, policy, key))
    }

    fn override_of<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>) -> Answer<'a, Option<ActiveOverride>> {
        Answer::of(self, Store::override_of(self, policy, key))
    }

    fn overrides<'a>(&'a self, policy: &'a Policy) -> Answer<'a, Vec<ActiveOverride>> {
        Answer::of(self, Store::overrides(self, policy))
    }

    fn reserve<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>, cost: Cost, hold: Hold) -> Answer<'a, Reserved> {
        Answer::of(self, Store::reserve(self, policy, key, cost, hold))
    }

    fn reserve_all<'a>(&'a self, spends: &'a [Spend<'_>], hold: Hold) -> Answer<'a, ReservedAll> {
        Answer::of(self, Store::reserve_all(self, spends, hold))
    }

    fn commit<'a>(
        &'a self,
        id: &'a ReservationId,
        actual: &'a [u64],
        policies: &'a dyn PolicySource,
    ) -> Answer<'a, Settled> {
        Answer::of(self, Store::commit(self, id, actual, policies))
    }

    fn release<'a>(&'a self, id: &'a ReservationId, policies: &'a dyn PolicySource) -> Answer<'a, Settled> {
        Answer::of(self, Store::release(self, id, policies))
    }

    fn release_detached(&self, id: &ReservationId, policies: &[Policy]) {
        Store::release_detached(self, id, policies);
    }

    fn renew<'a>(
        &'a self,
        id: &'a ReservationId,
        ttl: Duration,
        policies: &'a dyn PolicySource,
    ) -> Answer<'a, Settled> {
        Answer::of(self, Store::renew(self, id, ttl, policies))
    }

    fn lease<'a>(&'a self, policy: &'a Policy, key: &'a Key<'_>, lease: &'a Lease) -> Answer<'a, Leased> {
        Answer::of(self, Store::lease(self, policy, key, lease))
    }

    fn settle<'a>(&'a self, id: &'a ReservationId, spent: u64, policies: &'a dyn PolicySource) -> Answer<'a, Settled> {
        Answer::of(self, Store::settle(self, id, spent, policies))
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(Store::close(self))
    }

    fn at_time(&self, time: Timestamp) -> Option<AnyStore> {
        Store::at_time(self, time)
    }

    #[inline]
    fn decide_locally(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Option<Decision> {
        Store::decide_locally(self, op, policy, key, cost)
    }

    fn has_leases(&self) -> bool {
        Store::has_leases(self)
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
        if self.is_immediate {
            return self.store.decide_now(op, policy, key, cost);
        }
        // Without a future, which would be allocated.
        if let Some(decision) = self.store.decide_locally(op, policy, key, cost) {
            return Ok(decision);
        }
        self.store.decide(op, policy, key, cost).await
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        self.store.decide_all(op, spends).await
    }

    #[inline]
    fn is_immediate(&self) -> bool {
        self.is_immediate
    }

    #[inline]
    fn decide_now(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        self.store.decide_now(op, policy, key, cost)
    }

    forward_other_operations!(self => self.store);
}
