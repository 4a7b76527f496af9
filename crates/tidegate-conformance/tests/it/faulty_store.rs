//! [`FaultyStore`]: a correct store with one deliberate fault.

use std::{collections::HashMap, marker::PhantomData, ops::Deref, sync::Mutex, time::Duration};

use tidegate::{
    ActiveOverride, Cost, Decision, Decisions, Hold, Inspection, Key, Lease, Leased, Limiter, ManualClock, Op,
    Override, Policy, PolicySource, Refund, ReservationError, ReservationId, Reserved, ReservedAll, Settled, Spend,
    Store, StoreError, Timestamp,
};
use tidegate_conformance::StoreUnderTest;
use tidegate_conformance::proptest::test_runner::Config;

/// The store in memory, with a time that is set by hand.
pub(crate) struct Memory {
    limiter: Limiter,
    pub(crate) time: ManualClock,
    /// The key and the units of each hold, for faults that charge or refund it in another way.
    pub(crate) holds: Mutex<HashMap<ReservationId, (Key<'static>, u64)>>,
}

impl Deref for Memory {
    type Target = Limiter;

    fn deref(&self) -> &Limiter {
        &self.limiter
    }
}

/// What a store does. The provided methods are correct, and a fault replaces one of them.
pub(crate) trait Behaviour: Send + Sync + 'static {
    /// Whether the suites use few cases, for a store that is expected to pass.
    const FEW_CASES: bool = false;

    /// The policy by which a request is decided.
    fn policy(policy: &Policy) -> Policy {
        policy.clone()
    }

    fn decide(memory: &Memory, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
        memory.store().decide(op, policy, key, cost, memory.clock().now())
    }

    fn decide_all(memory: &Memory, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        Ok(memory.store().decide_all(op, spends, memory.clock().now())?)
    }

    fn refund(memory: &Memory, policy: &Policy, key: &Key<'_>, cost: Cost, charged_at: Timestamp) -> Refund {
        memory.refund(policy, key, cost, charged_at)
    }

    fn reset(memory: &Memory, policy: &Policy, key: &Key<'_>) -> bool {
        memory.reset(policy, key)
    }

    fn inspect(memory: &Memory, policy: &Policy, key: &Key<'_>) -> Option<Inspection> {
        memory.inspect(policy, key)
    }

    fn set_override(
        memory: &Memory,
        policy: &Policy,
        key: &Key<'_>,
        new: Override,
    ) -> Result<Option<Override>, StoreError> {
        Ok(memory.set_override(policy, key, new)?)
    }

    fn reserve(
        memory: &Memory,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        hold: Hold,
    ) -> Result<Reserved, ReservationError> {
        memory.reserve(policy, key, cost, hold)
    }

    fn reserve_all(memory: &Memory, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, ReservationError> {
        memory.reserve_all(spends, hold)
    }

    fn commit(
        memory: &Memory,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, ReservationError> {
        memory.commit(id, actual, policies)
    }

    fn renew(
        memory: &Memory,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, ReservationError> {
        memory.renew(id, ttl, policies)
    }

    fn lease(memory: &Memory, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, ReservationError> {
        memory.lease(policy, key, lease)
    }

    fn settle(
        memory: &Memory,
        id: &ReservationId,
        spent: u64,
        policies: &dyn PolicySource,
    ) -> Result<Settled, ReservationError> {
        memory.settle(id, spent, policies)
    }
}

/// A store in memory with the given behaviour.
pub(crate) struct FaultyStore<B> {
    memory: Memory,
    behaviour: PhantomData<B>,
}

impl<B: Behaviour> Store for FaultyStore<B> {
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        Ok(B::decide(&self.memory, op, &B::policy(policy), key, cost))
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        let policies: Vec<Policy> = spends.iter().map(|spend| B::policy(spend.policy)).collect();
        let spends: Vec<Spend<'_>> =
            spends.iter().zip(&policies).map(|(spend, policy)| Spend { policy, ..*spend }).collect();
        B::decide_all(&self.memory, op, &spends)
    }

    async fn refund(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Result<Refund, StoreError> {
        Ok(B::refund(&self.memory, &B::policy(policy), key, cost, charged_at))
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        Ok(B::reset(&self.memory, &B::policy(policy), key))
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        Ok(B::inspect(&self.memory, &B::policy(policy), key))
    }

    async fn set_override(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        new: Override,
    ) -> Result<Option<Override>, StoreError> {
        B::set_override(&self.memory, policy, key, new)
    }

    async fn remove_override(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Override>, StoreError> {
        Ok(self.memory.remove_override(policy, key))
    }

    async fn overrides(&self, policy: &Policy) -> Result<Vec<ActiveOverride>, StoreError> {
        Ok(self.memory.overrides(policy))
    }

    async fn override_of(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<ActiveOverride>, StoreError> {
        Ok(self.memory.override_of(policy, key))
    }

    async fn reserve(&self, policy: &Policy, key: &Key<'_>, cost: Cost, hold: Hold) -> Result<Reserved, StoreError> {
        let reserved = B::reserve(&self.memory, &B::policy(policy), key, cost, hold)?;
        if let Some(id) = &reserved.id {
            let subject = (key.clone().into_owned(), cost.get());
            self.memory.holds.lock().expect("no panic").insert(id.clone(), subject);
        }
        Ok(reserved)
    }

    async fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, StoreError> {
        Ok(B::reserve_all(&self.memory, spends, hold)?)
    }

    async fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        Ok(B::commit(&self.memory, id, actual, policies)?)
    }

    async fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        Ok(B::renew(&self.memory, id, ttl, policies)?)
    }

    async fn lease(&self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, StoreError> {
        Ok(B::lease(&self.memory, policy, key, lease)?)
    }

    async fn settle(&self, id: &ReservationId, spent: u64, policies: &dyn PolicySource) -> Result<Settled, StoreError> {
        Ok(B::settle(&self.memory, id, spent, policies)?)
    }
}

impl<B: Behaviour> StoreUnderTest for FaultyStore<B> {
    fn empty(_seed: u64) -> Self {
        let time = ManualClock::at(Timestamp::from_micros(0));
        let limiter = Limiter::default().with_clock(time.clock());
        let memory = Memory { limiter, time, holds: Mutex::default() };
        Self { memory, behaviour: PhantomData }
    }

    fn at(&self, now: Timestamp) -> impl Store {
        self.memory.time.set(now);
        self
    }

    fn config(config: Config) -> Config {
        let cases = if B::FEW_CASES { config.cases.div_ceil(50) } else { config.cases };
        // A failure is expected, so the smallest case is not needed.
        Config { cases, max_shrink_iters: 0, ..config }
    }
}
