//! [`Store`]: holds the state of keys and decides.
//!
//! [`Limiter`](crate::Limiter) is the store in memory. Other crates provide others, such as Redis. Middleware, service,
//! caller's budget and replay accept any of them.
//!
//! - [`error`]: why a store gave no answer
//! - [`report`]: the report of a store about itself
//! - [`any`]: a store whose type is known only at run time
//! - [`fallback`]: answers while a store gives none
//! - [`fail_safe`]: a store whose decisions never fail

mod any;
mod error;
mod fail_safe;
mod fallback;
mod report;

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

pub use any::AnyStore;
pub use error::StoreError;
pub use fail_safe::FailSafe;
pub use fallback::Fallback;
pub use report::{
    Degradation, EventCount, LeasedKey, Metric, MetricKind, NodeLeases, StoreNode, StoreReport, StoreUsage,
    WithoutStore,
};

use crate::{
    ActiveOverride, Clock, Cost, Decision, Decisions, Hold, Inspection, Key, Lease, Leased, Op, Override, Policy,
    PolicySource, Refund, ReservationId, Reserved, ReservedAll, Settled, Spend, Timestamp,
};

/// Holds the state of keys and makes each decision in one atomic step, by its own clock.
///
/// Anybody can implement it. [`external_store`](crate::external_store) has the arithmetic and the types that an
/// implementation needs, and the crate `tidegate-conformance` has the tests that every store passes.
///
/// An operation returns an error if the store can't answer. It must answer within a bounded time. Middleware, budget and
/// service wrap the store in a [`FailSafe`]. If the store returns an error, the `FailSafe` decides by the
/// [`OnStoreFailure`](crate::OnStoreFailure) of the policy. A store that can do better may apply that choice itself and
/// mark the decision as degraded.
///
/// A future that is dropped before it is ready may or may not have been carried out.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "use a `Limiter`, an `Arc<Limiter>`, a `RedisStore` of tidegate-redis, or implement `tidegate::Store`"
)]
pub trait Store: Send + Sync {
    /// Decides one request.
    fn decide(
        &self,
        op: Op,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// Decides several requests as one: all are charged or, if one is denied, none. A policy in shadow mode never
    /// denies. The same policy and key twice is one request of the summed cost.
    fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> impl Future<Output = Result<Decisions, StoreError>> + Send;

    /// Gives units back to the moment they were charged at ([`Decision::charged_at`]), not to now.
    fn refund(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> impl Future<Output = Result<Refund, StoreError>> + Send;

    /// Deletes the state of a key under a policy, but not its override. Returns whether there was a state.
    fn reset(&self, policy: &Policy, key: &Key<'_>) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Shows the state of a key under a policy, if there is one.
    fn inspect(
        &self,
        policy: &Policy,
        key: &Key<'_>,
    ) -> impl Future<Output = Result<Option<Inspection>, StoreError>> + Send;

    /// Overrides the limits of a key under a policy. The history is kept. Returns the override that it replaces.
    ///
    /// A store without overrides keeps the default, which returns [`StoreError::Unsupported`].
    fn set_override(
        &self,
        _policy: &Policy,
        _key: &Key<'_>,
        _override: Override,
    ) -> impl Future<Output = Result<Option<Override>, StoreError>> + Send {
        std::future::ready(Err(StoreError::Unsupported { operation: "set_override" }))
    }

    /// Removes the override of a key under a policy. The history is kept. Returns the override if it was in force.
    fn remove_override(
        &self,
        _policy: &Policy,
        _key: &Key<'_>,
    ) -> impl Future<Output = Result<Option<Override>, StoreError>> + Send {
        std::future::ready(Err(StoreError::Unsupported { operation: "remove_override" }))
    }

    /// Shows the override of a key under a policy, if one is in force.
    fn override_of(
        &self,
        _policy: &Policy,
        _key: &Key<'_>,
    ) -> impl Future<Output = Result<Option<ActiveOverride>, StoreError>> + Send {
        std::future::ready(Ok(None))
    }

    /// Lists the overrides of a policy that are in force, in the order of their keys.
    fn overrides(&self, _policy: &Policy) -> impl Future<Output = Result<Vec<ActiveOverride>, StoreError>> + Send {
        std::future::ready(Ok(Vec::new()))
    }

    /// Reserves `cost` units until the actual cost, or the end of the work, is known. They are charged at once, as by a
    /// [check](Self::check), and [`commit`](Self::commit) corrects them.
    ///
    /// A hold counts at the time of its grant. To bound work that goes on, use a limit on the units in open holds, such as
    /// `4/inflight`. If a hold is released at its end although the work was done, the work was free.
    ///
    /// A store without reservations keeps the default, which returns [`StoreError::Unsupported`]. The same applies to the
    /// other operations on reservations.
    fn reserve(
        &self,
        _policy: &Policy,
        _key: &Key<'_>,
        _cost: Cost,
        _hold: Hold,
    ) -> impl Future<Output = Result<Reserved, StoreError>> + Send {
        std::future::ready(Err(StoreError::Unsupported { operation: "reserve" }))
    }

    /// Reserves several requests as one: all of them or, if one is denied, none. They have one id.
    fn reserve_all(
        &self,
        _spends: &[Spend<'_>],
        _hold: Hold,
    ) -> impl Future<Output = Result<ReservedAll, StoreError>> + Send {
        std::future::ready(Err(StoreError::Unsupported { operation: "reserve_all" }))
    }

    /// Closes an open hold whose work took `actual` units: one number for all of its requests, or one for each, in order.
    ///
    /// Unused units are given back to the time of the grant. Units beyond those of the hold are charged now, past the limit
    /// if necessary. If the hold is not open, nothing is changed, so a repeated commit is harmless. `policies` finds the
    /// policy of the hold: the [`Policy`] itself, or a list.
    fn commit(
        &self,
        _id: &ReservationId,
        _actual: &[u64],
        _policies: &dyn PolicySource,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send {
        std::future::ready(Err(StoreError::Unsupported { operation: "commit" }))
    }

    /// Closes an open hold and gives all of its units back.
    fn release(
        &self,
        id: &ReservationId,
        policies: &dyn PolicySource,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send {
        self.commit(id, &[0], policies)
    }

    /// Sends a [`release`](Self::release) and does not wait for the answer: for a guard that is dropped.
    ///
    /// `policies` has the policies of all requests of the reservation. The default polls a release once, which is enough for
    /// an [immediate](Self::is_immediate) store. Any other store must send the release in the background. If it can't be
    /// sent, the hold ends by itself.
    fn release_detached(&self, id: &ReservationId, policies: &[Policy]) {
        drop(now_or_never(self.release(id, &policies)));
    }

    /// Sets the end of an open hold to `ttl` from now.
    fn renew(
        &self,
        _id: &ReservationId,
        _ttl: Duration,
        _policies: &dyn PolicySource,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send {
        std::future::ready(Err(StoreError::Unsupported { operation: "renew" }))
    }

    /// Sets units aside that a node may admit by itself for a short time. An earlier lease is settled first.
    fn lease(
        &self,
        _policy: &Policy,
        _key: &Key<'_>,
        _lease: &Lease,
    ) -> impl Future<Output = Result<Leased, StoreError>> + Send {
        std::future::ready(Err(StoreError::Unsupported { operation: "lease" }))
    }

    /// Closes an open lease of which `spent` units were spent. They are charged now.
    fn settle(
        &self,
        _id: &ReservationId,
        _spent: u64,
        _policies: &dyn PolicySource,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send {
        std::future::ready(Err(StoreError::Unsupported { operation: "settle" }))
    }

    /// The same store, deciding at `time` and not by its clock: for replays. It must not touch the states of live
    /// requests. `None` if the store can't do that.
    fn at_time(&self, _time: Timestamp) -> Option<AnyStore> {
        None
    }

    /// Whether every future of this store is ready when it is first polled. Middleware and service then neither box nor
    /// allocate anything for a decision.
    fn is_immediate(&self) -> bool {
        false
    }

    /// [`decide`](Self::decide) of an [immediate](Self::is_immediate) store. The default polls that future once. A store
    /// can save even this by deciding here.
    ///
    /// # Errors
    /// As [`decide`](Self::decide), or if the answer is not ready.
    #[inline]
    fn decide_now(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        // An operation that was not ready is never started again: it may have been carried out.
        answer_now(self.decide(op, policy, key, cost))
    }

    /// The decision, if this process can decide without waiting for anything. Otherwise call [`decide`](Self::decide), which
    /// gives the same answer. The default is for stores that never can, and for [immediate](Self::is_immediate) ones.
    #[inline]
    fn decide_locally(&self, _op: Op, _policy: &Policy, _key: &Key<'_>, _cost: Cost) -> Option<Decision> {
        None
    }

    /// Whether the store has [`lease`](Self::lease) and [`settle`](Self::settle). The default is no, like the default of both.
    fn has_leases(&self) -> bool {
        false
    }

    /// Whether other processes may spend from the same state.
    fn is_shared(&self) -> bool {
        true
    }

    /// The clock of the decisions or, if another machine's clock decides, the clock of this machine.
    fn clock(&self) -> &Clock {
        Clock::process()
    }

    /// Gives back what this process holds of the shared state, such as leases. Call it before the process ends. The store
    /// still decides after it.
    fn close(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// The report of the store about itself, for metrics, readiness checks and the dashboard.
    fn report(&self) -> StoreReport {
        StoreReport::default()
    }

    /// Spends `cost` if it fits.
    fn check(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.decide(Op::Check, policy, key, cost)
    }

    /// Answers as [`check`](Self::check) would, and spends nothing. What remains is as it is before the spend.
    fn peek(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.decide(Op::Peek, policy, key, cost)
    }

    /// Spends `cost` even past the limit: for a cost that is known only afterwards.
    fn charge(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.decide(Op::Charge, policy, key, cost)
    }

    /// Spends all of `spends` if all fit, else none.
    fn check_all(&self, spends: &[Spend<'_>]) -> impl Future<Output = Result<Decisions, StoreError>> + Send {
        self.decide_all(Op::Check, spends)
    }
}

/// Implements all of [`Store`] but the decisions and `is_immediate`, by calling another store.
macro_rules! forward_other_operations {
    ($self:ident => $store:expr) => {
        async fn refund(
            &$self,
            policy: &Policy,
            key: &Key<'_>,
            cost: Cost,
            charged_at: Timestamp,
        ) -> Result<Refund, StoreError> {
            $store.refund(policy, key, cost, charged_at).await
        }

        async fn reset(&$self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
            $store.reset(policy, key).await
        }

        async fn inspect(
            &$self,
            policy: &Policy,
            key: &Key<'_>,
        ) -> Result<Option<Inspection>, StoreError> {
            $store.inspect(policy, key).await
        }

        async fn set_override(
            &$self,
            policy: &Policy,
            key: &Key<'_>,
            new: Override,
        ) -> Result<Option<Override>, StoreError> {
            $store.set_override(policy, key, new).await
        }

        async fn remove_override(
            &$self,
            policy: &Policy,
            key: &Key<'_>,
        ) -> Result<Option<Override>, StoreError> {
            $store.remove_override(policy, key).await
        }

        async fn override_of(
            &$self,
            policy: &Policy,
            key: &Key<'_>,
        ) -> Result<Option<ActiveOverride>, StoreError> {
            $store.override_of(policy, key).await
        }

        async fn overrides(&$self, policy: &Policy) -> Result<Vec<ActiveOverride>, StoreError> {
            $store.overrides(policy).await
        }

        async fn reserve(
            &$self,
            policy: &Policy,
            key: &Key<'_>,
            cost: Cost,
            hold: Hold,
        ) -> Result<Reserved, StoreError> {
            $store.reserve(policy, key, cost, hold).await
        }

        async fn reserve_all(&$self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, StoreError> {
            $store.reserve_all(spends, hold).await
        }

        async fn commit(
            &$self,
            id: &ReservationId,
            actual: &[u64],
            policies: &dyn PolicySource,
        ) -> Result<Settled, StoreError> {
            $store.commit(id, actual, policies).await
        }

        async fn release(
            &$self,
            id: &ReservationId,
            policies: &dyn PolicySource,
        ) -> Result<Settled, StoreError> {
            $store.release(id, policies).await
        }

        fn release_detached(&$self, id: &ReservationId, policies: &[Policy]) {
            $store.release_detached(id, policies);
        }

        async fn renew(
            &$self,
            id: &ReservationId,
            ttl: Duration,
            policies: &dyn PolicySource,
        ) -> Result<Settled, StoreError> {
            $store.renew(id, ttl, policies).await
        }

        async fn lease(&$self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, StoreError> {
            $store.lease(policy, key, lease).await
        }

        async fn settle(
            &$self,
            id: &ReservationId,
            spent: u64,
            policies: &dyn PolicySource,
        ) -> Result<Settled, StoreError> {
            $store.settle(id, spent, policies).await
        }

        async fn close(&$self) {
            $store.close().await;
        }

        fn at_time(&$self, time: Timestamp) -> Option<AnyStore> {
            $store.at_time(time)
        }

        #[inline]
        fn decide_locally(&$self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Option<Decision> {
            $store.decide_locally(op, policy, key, cost)
        }

        fn has_leases(&$self) -> bool {
            $store.has_leases()
        }

        fn is_shared(&$self) -> bool {
            $store.is_shared()
        }

        fn clock(&$self) -> &Clock {
            $store.clock()
        }

        fn report(&$self) -> StoreReport {
            $store.report()
        }
    };
}
use forward_other_operations;

/// Implements [`Store`] for a pointer to a store.
macro_rules! forward {
    ($pointer:ty) => {
        impl<S: Store + ?Sized> Store for $pointer {
            #[inline]
            fn decide(
                &self,
                op: Op,
                policy: &Policy,
                key: &Key<'_>,
                cost: Cost,
            ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
                (**self).decide(op, policy, key, cost)
            }

            fn decide_all(
                &self,
                op: Op,
                spends: &[Spend<'_>],
            ) -> impl Future<Output = Result<Decisions, StoreError>> + Send {
                (**self).decide_all(op, spends)
            }

            #[inline]
            fn is_immediate(&self) -> bool {
                (**self).is_immediate()
            }

            #[inline]
            fn decide_now(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
                (**self).decide_now(op, policy, key, cost)
            }

            forward_other_operations!(self => (**self));
        }
    };
}

forward!(&S);
forward!(Arc<S>);

/// The answer of an [immediate](Store::is_immediate) store.
#[inline]
fn answer_now<T>(answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => Err(StoreError::NOT_READY),
    }
}

/// Polls a future once. Returns its output if it is ready, as every future of an [immediate](Store::is_immediate) store
/// is.
#[inline]
pub fn now_or_never<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
