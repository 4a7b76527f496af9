//! [`HoldGuard`]: a hold of async code, which releases itself when it is dropped.

use std::{future::Future, mem, time::Duration};

use super::{Hold, PolicySource, ReservationId, Reserved, ReservedAll, Settled};
use crate::{
    cost::Cost,
    decide_all::Spend,
    decision::{Decision, Decisions},
    key::Key,
    policy::Policy,
    store::{FailSafe, Store, StoreError},
};

/// A store that a [`HoldGuard`] can use: every [`Store`], and a [`FailSafe`].
pub trait HoldStore: sealed::Sealed + Send + Sync {
    /// See [`Store::reserve`].
    fn reserve(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        hold: Hold,
    ) -> impl Future<Output = Result<Reserved, StoreError>> + Send;

    /// See [`Store::reserve_all`].
    fn reserve_all(
        &self,
        spends: &[Spend<'_>],
        hold: Hold,
    ) -> impl Future<Output = Result<ReservedAll, StoreError>> + Send;

    /// See [`Store::commit`].
    fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send;

    /// See [`Store::renew`].
    fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send;

    /// See [`Store::release_detached`].
    fn release_detached(&self, id: &ReservationId, policies: &[Policy]);
}

mod sealed {
    pub trait Sealed {}
    impl<S: crate::Store> Sealed for S {}
    impl<S: crate::Store> Sealed for crate::FailSafe<S> {}
}

impl<S: Store> HoldStore for S {
    async fn reserve(&self, policy: &Policy, key: &Key<'_>, cost: Cost, hold: Hold) -> Result<Reserved, StoreError> {
        Store::reserve(self, policy, key, cost, hold).await
    }

    async fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, StoreError> {
        Store::reserve_all(self, spends, hold).await
    }

    async fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        Store::commit(self, id, actual, policies).await
    }

    async fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        Store::renew(self, id, ttl, policies).await
    }

    fn release_detached(&self, id: &ReservationId, policies: &[Policy]) {
        Store::release_detached(self, id, policies);
    }
}

impl<S: Store> HoldStore for FailSafe<S> {
    async fn reserve(&self, policy: &Policy, key: &Key<'_>, cost: Cost, hold: Hold) -> Result<Reserved, StoreError> {
        Ok(self.reserve(policy, key, cost, hold).await?)
    }

    async fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, StoreError> {
        Ok(self.reserve_all(spends, hold).await?)
    }

    async fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        self.commit(id, actual, policies).await
    }

    async fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        self.renew(id, ttl, policies).await
    }

    fn release_detached(&self, id: &ReservationId, policies: &[Policy]) {
        self.release_detached(id, policies);
    }
}

/// An open hold of async code. It is committed with the actual cost, or released when it is dropped.
///
/// A dropped guard [sends](Store::release_detached) the release and does not wait for the answer. If the release can't be
/// sent, the hold ends at its ttl. If the future of [`reserve`](Self::reserve) is dropped, a hold that was granted ends at
/// its ttl, too.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use tidegate::{Cost, Hold, HoldGuard, Key, Limiter, Policy};
///
/// # async fn call_model() -> Option<u64> { Some(250) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Arc::new(Limiter::default());
/// let tokens = Policy::new("tokens", ["1000/1m".parse()?])?;
/// let alice = Key::new("alice")?;
///
/// let hold = Hold::new(Duration::from_secs(60));
/// let reserved = HoldGuard::reserve(Arc::clone(&limiter), &tokens, &alice, Cost::new(400)?, hold).await?;
/// let Some(guard) = reserved.guard else {
///     println!("denied: retry in {:?}", reserved.decision.retry_after());
///     return Ok(());
/// };
/// // If this fails, or if this future is dropped meanwhile, all of the units are released.
/// let used = call_model().await.ok_or("no answer")?;
/// guard.commit(used).await?;
/// # assert_eq!(limiter.peek(&tokens, &alice, Cost::ONE).remaining(), 750);
/// # Ok(())
/// # }
/// # tidegate::now_or_never(example()).expect("it is immediate")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its hold"]
pub struct HoldGuard<S: HoldStore> {
    store: S,
    id: ReservationId,
    decision: Decision,
    policies: Box<[Policy]>,
    releases: bool,
}

/// The answer to a reserve of async code.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "a decision that is not read limits nothing"]
pub struct Guarded<S: HoldStore> {
    /// The decision.
    pub decision: Decision,
    /// The hold, if the request is admitted.
    pub guard: Option<HoldGuard<S>>,
}

/// The answer to a reserve of several requests of async code.
#[derive(Debug)]
#[non_exhaustive]
#[must_use = "a decision that is not read limits nothing"]
pub struct GuardedAll<S: HoldStore> {
    /// The decisions.
    pub decisions: Decisions,
    /// The one hold of all requests, if they are admitted.
    pub guard: Option<HoldGuard<S>>,
}

impl<S: HoldStore> HoldGuard<S> {
    /// Reserves `cost` units in `store`: a store, a pointer to one, or a [`FailSafe`].
    ///
    /// # Errors
    /// If the hold is malformed, or a store without a [`FailSafe`] gives no answer.
    pub async fn reserve(
        store: S,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        hold: Hold,
    ) -> Result<Guarded<S>, StoreError> {
        let Reserved { decision, id } = store.reserve(policy, key, cost, hold).await?;
        let guard = id.map(|id| Self { store, id, decision, policies: [policy.clone()].into(), releases: true });
        Ok(Guarded { decision, guard })
    }

    /// Reserves several requests as one: all of them or, if one is denied, none.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve), or if the requests can't be decided as one.
    pub async fn reserve_all(store: S, spends: &[Spend<'_>], hold: Hold) -> Result<GuardedAll<S>, StoreError> {
        let ReservedAll { decisions, id } = store.reserve_all(spends, hold).await?;
        let policies = || spends.iter().map(|spend| spend.policy.clone()).collect();
        let decision = decisions.overall;
        let guard = id.map(|id| Self { store, id, decision, policies: policies(), releases: true });
        Ok(GuardedAll { decisions, guard })
    }

    /// The id of the hold.
    pub fn id(&self) -> &ReservationId {
        &self.id
    }

    /// The decision that granted the hold. For several requests, it is the combined decision.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Closes the hold, whose work took `actual` units: see [`Store::commit`]. For several requests, the number applies to
    /// each of them.
    ///
    /// The guard does not release the hold after this call. If the call fails or its future is dropped, the hold ends at
    /// its ttl, unless it was committed.
    ///
    /// # Errors
    /// If `actual` is out of range or the store can't answer.
    pub async fn commit(self, actual: u64) -> Result<Settled, StoreError> {
        self.commit_each(&[actual]).await
    }

    /// Closes the hold with one number for each of its requests, in order: see [`commit`](Self::commit).
    ///
    /// # Errors
    /// As [`commit`](Self::commit), or if there is not one number for each request.
    pub async fn commit_each(mut self, actual: &[u64]) -> Result<Settled, StoreError> {
        // A release after a commit that may have been lost would give back units that were used.
        self.releases = false;
        self.store.commit(&self.id, actual, &&*self.policies).await
    }

    /// Closes the hold, gives all of its units back and waits for the answer.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn release(self) -> Result<Settled, StoreError> {
        self.commit(0).await
    }

    /// Sets the end of the hold to `ttl` from now. `known` is false if the hold has ended.
    ///
    /// # Errors
    /// If the ttl is out of range or the store can't answer.
    pub async fn renew(&self, ttl: Duration) -> Result<Settled, StoreError> {
        self.store.renew(&self.id, ttl, &&*self.policies).await
    }

    /// Leaves the hold open, for another process that commits it by its id.
    pub fn leave_open(mut self) -> ReservationId {
        self.releases = false;
        self.id.clone()
    }
}

impl<S: HoldStore> Drop for HoldGuard<S> {
    fn drop(&mut self) {
        if mem::take(&mut self.releases) && !self.id.is_never_granted() {
            self.store.release_detached(&self.id, &self.policies);
        }
    }
}
