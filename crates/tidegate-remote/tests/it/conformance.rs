//! The conformance suites through a root service, whose store decides at given times.

use std::{
    future::Future,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tidegate::{
    Cost, Decision, Decisions, Hold, Inspection, Key, Lease, Leased, Op, Policy, PolicySource, Refund, ReservationId,
    Reserved, ReservedAll, Settled, Spend, Store, StoreError, Timestamp,
};
use tidegate_conformance::{StoreUnderTest, proptest::test_runner::Config};

use crate::root::Root;

static ROOT: LazyLock<Root> = LazyLock::new(Root::start);

/// The store with keys of its own.
struct Remote {
    number: u64,
}

/// The store, which sets the time of the root and configures the policy there before each operation.
struct AtTime(Timestamp);

impl AtTime {
    fn root(&self, policies: &[&Policy]) -> &'static Root {
        ROOT.time.set(self.0);
        for policy in policies {
            ROOT.configure(policy);
        }
        &ROOT
    }
}

impl Store for AtTime {
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        let root = self.root(&[policy]);
        if cost > Cost::MAX {
            // Some vectors have costs beyond the range, which the root refuses. They change its state only here.
            return root.limiter.decide(op, policy, key, cost).await;
        }
        root.store.decide(op, policy, key, cost).await
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        let policies: Vec<&Policy> = spends.iter().map(|spend| spend.policy).collect();
        self.root(&policies).store.decide_all(op, spends).await
    }

    async fn refund(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Result<Refund, StoreError> {
        self.root(&[policy]).store.refund(policy, key, cost, charged_at).await
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        self.root(&[policy]).store.reset(policy, key).await
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        self.root(&[policy]).store.inspect(policy, key).await
    }

    async fn reserve(&self, policy: &Policy, key: &Key<'_>, cost: Cost, hold: Hold) -> Result<Reserved, StoreError> {
        self.root(&[policy]).store.reserve(policy, key, cost, hold).await
    }

    async fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, StoreError> {
        let policies: Vec<&Policy> = spends.iter().map(|spend| spend.policy).collect();
        self.root(&policies).store.reserve_all(spends, hold).await
    }

    async fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        let policy = id.policy(policies)?;
        self.root(&[&policy]).store.commit(id, actual, policies).await
    }

    async fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        let policy = id.policy(policies)?;
        self.root(&[&policy]).store.renew(id, ttl, policies).await
    }

    async fn lease(&self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, StoreError> {
        self.root(&[policy]).store.lease(policy, key, lease).await
    }

    async fn settle(&self, id: &ReservationId, spent: u64, policies: &dyn PolicySource) -> Result<Settled, StoreError> {
        let policy = id.policy(policies)?;
        self.root(&[&policy]).store.settle(id, spent, policies).await
    }
}

impl StoreUnderTest for Remote {
    fn empty(_seed: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        ROOT.runtime.block_on(ROOT.store.ready());
        Self { number: NEXT.fetch_add(1, Relaxed) }
    }

    fn at(&self, now: Timestamp) -> impl Store {
        AtTime(now)
    }

    fn key(&self, name: &[u8]) -> Key<'static> {
        Key::join([&self.number.to_be_bytes()[..], name]).expect("a short key")
    }

    /// Each operation is a round trip.
    fn config(config: Config) -> Config {
        Config { cases: config.cases.div_ceil(8), ..config }
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        ROOT.runtime.block_on(future)
    }
}

tidegate_conformance::vectors!(Remote);
tidegate_conformance::agreement!(Remote);
tidegate_conformance::long_histories!(Remote);
tidegate_conformance::waits!(Remote);
tidegate_conformance::windows!(Remote);
tidegate_conformance::denials!(Remote);
tidegate_conformance::shadow!(Remote);
tidegate_conformance::decide_all!(Remote);
tidegate_conformance::refunds!(Remote);
tidegate_conformance::changed_limits!(Remote);
tidegate_conformance::saturation!(Remote);
tidegate_conformance::caller_limits!(Remote);
