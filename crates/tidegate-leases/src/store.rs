//! [`LeasedStore`]: a store that decides by leases of another store.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tidegate::{
    ActiveOverride, AnyStore, Clock, Cost, Decision, Decisions, EventCount, Hold, Inspection, Key, Lease, Leased, Op,
    Override, Policy, PolicySource, Refund, ReservationId, Reserved, ReservedAll, Settled, Spend, Store, StoreError,
    StoreReport, Timestamp, external_store,
};
use tokio::{runtime::Handle, task::JoinSet};

use crate::{
    key_leases::{LeaseRequest, SettleRequest},
    node::Node,
    stats::Stats,
    term_clock::TermClock,
};

/// How often leases that have ended or are idle are searched.
const SWEEP_EVERY: Duration = Duration::from_millis(20);
/// Maximum number of keys in a report.
const REPORTED_KEYS: usize = 100;
/// Maximum number of settles that are under way when the store is closed.
const SETTLES_AT_ONCE: usize = 256;

/// Decides requests for keys that are requested often by leases of a shared store, and all others through that store.
///
/// Only policies with a [lease term](Policy::with_lease) are leased. Several requests as one decision, overrides and holds are
/// always decided by the shared store. A [lease](Store::lease) for a client of this store is a part of a lease of this store, if
/// it has enough units for long enough. Otherwise the shared store grants it. It is cheap to clone.
///
/// Call [`close`](Store::close) when the process ends. Otherwise the units that are left count as spent until the leases have
/// expired.
#[derive(Debug)]
pub struct LeasedStore<S> {
    inner: Arc<Inner<S>>,
}

#[derive(Debug)]
struct Inner<S> {
    shared: S,
    node: Node,
    clock: TermClock,
    runtime: Handle,
}

/// The shared store has no leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the store `{kind}` has no leases: use a store with leases, such as Redis, or remove `lease` from the policies"
)]
pub struct LeasesUnsupported {
    /// The kind of the store.
    pub kind: &'static str,
}

impl<S> Clone for LeasedStore<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<S: Store + 'static> LeasedStore<S> {
    /// A store that leases from `shared`, in the tokio runtime in which it is made.
    ///
    /// # Errors
    /// If `shared` has no leases.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(shared: S) -> Result<Self, LeasesUnsupported> {
        Self::with_clock(shared, Node::default(), TermClock::machine())
    }

    /// The same with a node of another size, and another clock by which terms are measured.
    ///
    /// # Errors
    /// If `shared` has no leases.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn with_clock(shared: S, node: Node, clock: TermClock) -> Result<Self, LeasesUnsupported> {
        if !shared.has_leases() {
            return Err(LeasesUnsupported { kind: shared.report().kind });
        }
        let inner = Arc::new(Inner { shared, node, clock, runtime: Handle::current() });
        let runtime = inner.runtime.clone();
        runtime.spawn(keep_sweeping(Arc::downgrade(&inner)));
        Ok(Self { inner })
    }

    /// The store that the units are leased from.
    pub fn shared(&self) -> &S {
        &self.inner.shared
    }

    /// What the node has decided by itself so far, and its leases.
    pub fn stats(&self) -> Stats {
        self.inner.node.stats(self.inner.clock.micros())
    }

    /// Whether the node decides requests under this policy.
    #[inline]
    fn leases(policy: &Policy) -> bool {
        Node::leases(policy)
    }

    fn lease_in_background(&self, fingerprint: u128) {
        self.inner.runtime.spawn(lease(Arc::clone(&self.inner), fingerprint));
    }

    fn settle_in_background(&self, requests: Vec<SettleRequest>) {
        for request in requests {
            self.inner.runtime.spawn(settle(Arc::clone(&self.inner), request));
        }
    }

    /// Decides a request, or returns the fingerprint of its key.
    #[inline]
    fn decide_by_node(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, u128> {
        let answer = self.inner.node.decide(self.inner.clock.micros(), op, policy, key, cost);
        if answer.wants_lease {
            self.lease_in_background(answer.fingerprint);
        }
        answer.decision.ok_or(answer.fingerprint)
    }
}

/// A request for a lease that has begun. If its task ends without an answer, that is recorded.
struct BegunLease<S: Store + 'static> {
    inner: Arc<Inner<S>>,
    request: Option<LeaseRequest>,
}

impl<S: Store + 'static> BegunLease<S> {
    fn end(&mut self, answer: Result<&Leased, &StoreError>) {
        let Some(request) = self.request.take() else { return };
        let inner = &self.inner;
        for request in inner.node.end_lease(inner.clock.micros(), request, answer) {
            inner.runtime.spawn(settle(Arc::clone(inner), request));
        }
    }
}

impl<S: Store + 'static> Drop for BegunLease<S> {
    fn drop(&mut self) {
        self.end(Err(&lost()));
    }
}

fn lost() -> StoreError {
    StoreError::Unavailable { cause: "lost", message: "the request for a lease ended without an answer".to_owned() }
}

/// Requests a lease of a key.
async fn lease<S: Store + 'static>(inner: Arc<Inner<S>>, fingerprint: u128) {
    // The clock is read before the request is sent.
    let Some(request) = inner.node.begin_lease(inner.clock.micros(), fingerprint) else { return };
    let mut begun = BegunLease { inner: Arc::clone(&inner), request: Some(request.clone()) };
    let answer = inner.shared.lease(&request.policy, &request.key, &request.lease).await;
    if let Err(error) = &answer {
        tracing::debug!(%error, "a lease was not granted");
    }
    begun.end(answer.as_ref());
}

/// Settles a lease. Without an answer, the next sweep settles it again.
async fn settle<S: Store + 'static>(inner: Arc<Inner<S>>, request: SettleRequest) {
    let answer = inner.shared.settle(request.id(), request.spent(), &request.policy).await;
    let known = match &answer {
        Ok(settled) => Some(settled.known),
        // The same request would fail again.
        Err(error) if error.is_caused_by_request() => Some(false),
        Err(_) => None,
    };
    inner.node.end_settle(request, known);
}

/// Settles idle leases while the store exists. A sweep that panics is reported, and the next one goes on.
async fn keep_sweeping<S: Store + 'static>(inner: Weak<Inner<S>>) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(inner) = inner.upgrade() else { return };
        let sweep = tokio::spawn(async move {
            for request in inner.node.sweep(inner.clock.micros()) {
                inner.runtime.spawn(settle(Arc::clone(&inner), request));
            }
        });
        if sweep.await.is_err_and(|error| error.is_panic()) {
            tracing::error!("the task that settles leases panicked: it goes on");
        }
    }
}

impl<S: Store + 'static> Store for LeasedStore<S> {
    #[inline]
    fn decide_locally(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Option<Decision> {
        if Self::leases(policy) { self.decide_by_node(op, policy, key, cost).ok() } else { None }
    }

    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        let Inner { shared, node, clock, .. } = &*self.inner;
        if !Self::leases(policy) {
            return shared.decide(op, policy, key, cost).await;
        }
        let fingerprint = match self.decide_by_node(op, policy, key, cost) {
            Ok(decision) => return Ok(decision),
            Err(fingerprint) => fingerprint,
        };
        let sent_at = clock.micros();
        let decision = shared.decide(op, policy, key, cost).await?;
        if node.note_direct(clock.micros(), sent_at, (op, policy, key, cost), fingerprint, &decision) {
            self.lease_in_background(fingerprint);
        }
        Ok(decision)
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        self.shared().decide_all(op, spends).await
    }

    async fn refund(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Result<Refund, StoreError> {
        let Inner { shared, node, clock, .. } = &*self.inner;
        let by_node =
            Self::leases(policy).then(|| node.refund(clock.micros(), policy, key, cost, charged_at)).flatten();
        match by_node {
            None => shared.refund(policy, key, cost, charged_at).await,
            Some(returned) => {
                // The answer has to say what remains.
                let peeked = self.decide(Op::Peek, policy, key, Cost::ONE).await?;
                Ok(tidegate::external_store::refund_by_node(&peeked, returned))
            }
        }
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        let existed = self.shared().reset(policy, key).await;
        // A lease that the store has deleted is not settled. One that it could not delete still counts there.
        self.inner.node.forget(policy, key);
        existed
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        self.shared().inspect(policy, key).await
    }

    async fn set_override(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        new: Override,
    ) -> Result<Option<Override>, StoreError> {
        let replaced = self.shared().set_override(policy, key, new).await;
        self.settle_in_background(self.inner.node.stop(policy, key));
        replaced
    }

    async fn remove_override(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Override>, StoreError> {
        let removed = self.shared().remove_override(policy, key).await;
        self.settle_in_background(self.inner.node.stop(policy, key));
        removed
    }

    async fn override_of(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<ActiveOverride>, StoreError> {
        self.shared().override_of(policy, key).await
    }

    async fn overrides(&self, policy: &Policy) -> Result<Vec<ActiveOverride>, StoreError> {
        self.shared().overrides(policy).await
    }

    async fn reserve(&self, policy: &Policy, key: &Key<'_>, cost: Cost, hold: Hold) -> Result<Reserved, StoreError> {
        self.shared().reserve(policy, key, cost, hold).await
    }

    async fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, StoreError> {
        self.shared().reserve_all(spends, hold).await
    }

    async fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        self.shared().commit(id, actual, policies).await
    }

    async fn release(&self, id: &ReservationId, policies: &dyn PolicySource) -> Result<Settled, StoreError> {
        self.shared().release(id, policies).await
    }

    fn release_detached(&self, id: &ReservationId, policies: &[Policy]) {
        self.shared().release_detached(id, policies);
    }

    async fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        self.shared().renew(id, ttl, policies).await
    }

    async fn lease(&self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, StoreError> {
        let Inner { shared, node, clock, .. } = &*self.inner;
        if !Self::leases(policy) {
            return shared.lease(policy, key, lease).await;
        }
        external_store::lease_ttl_us(policy, lease)?;
        let mut lease = lease.clone();
        let mut settled = None;
        if let Some((id, spent)) = &lease.settle {
            settled = node.settle_client(clock.micros(), policy, Some(key), id, *spent)?;
        }
        if settled.is_some() {
            lease.settle = None;
        }
        let answer = node.lease_out(clock.micros(), policy, key, &lease);
        if answer.wants_lease {
            self.lease_in_background(answer.fingerprint);
        }
        if let Some(mut leased) = answer.leased {
            leased.settled = match &lease.settle {
                // A lease of the shared store. Without an answer, it ends by itself.
                Some((id, spent)) => Some(shared.settle(id, *spent, policy).await.is_ok_and(|settled| settled.known)),
                None => settled,
            };
            return Ok(leased);
        }
        let mut leased = shared.lease(policy, key, &lease).await?;
        if node.note_client_lease(clock.micros(), policy, key, answer.fingerprint, &leased) {
            self.lease_in_background(answer.fingerprint);
        }
        leased.settled = leased.settled.or(settled);
        Ok(leased)
    }

    async fn settle(&self, id: &ReservationId, spent: u64, policies: &dyn PolicySource) -> Result<Settled, StoreError> {
        let Inner { shared, node, clock, .. } = &*self.inner;
        if let Ok(policy) = id.policy(policies)
            && Self::leases(&policy)
            && let Some(known) = node.settle_client(clock.micros(), &policy, None, id, spent)?
        {
            return Ok(Settled::new(external_store::unknown_reservation(&policy).decision, known));
        }
        shared.settle(id, spent, policies).await
    }

    fn at_time(&self, time: Timestamp) -> Option<AnyStore> {
        self.shared().at_time(time)
    }

    /// Settles all leases, so that their unspent units can be used elsewhere. From then on, the shared store decides everything.
    async fn close(&self) {
        let mut settles = JoinSet::new();
        for request in self.inner.node.close() {
            while settles.len() >= SETTLES_AT_ONCE {
                settles.join_next().await;
            }
            settles.spawn(settle(Arc::clone(&self.inner), request));
        }
        while settles.join_next().await.is_some() {}
        self.shared().close().await;
    }

    fn has_leases(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        self.shared().is_shared()
    }

    fn clock(&self) -> &Clock {
        self.shared().clock()
    }

    fn report(&self) -> StoreReport {
        let (mut report, stats) = (self.shared().report(), self.stats());
        report.metrics.extend(stats.metrics());
        report.leases = Some(stats.report(self.inner.node.keys(self.inner.clock.micros(), REPORTED_KEYS)));
        report.event_counts.push(EventCount {
            cause: "lease_unanswered",
            count: stats.unanswered,
            what: "requests for leases had no answer, so the shared store decides each request".into(),
            cure: "repair the shared store or the network; the units of lost leases count until the leases have ended",
        });
        report.event_counts.push(EventCount {
            cause: "lease_no_room",
            count: stats.no_room,
            what: "requests for hot keys had no room among the remembered keys".into(),
            cure: "more keys are hot than this node remembers: the shared store decides the others",
        });
        report
    }
}
