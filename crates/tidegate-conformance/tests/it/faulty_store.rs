//! [`FaultyStore`]: a correct store with one deliberate fault.

use std::{marker::PhantomData, ops::Deref};

use tidegate::{
    ActiveOverride, Cost, Decision, Decisions, Inspection, Key, Limiter, ManualClock, Op, Override, Policy, Refund,
    Spend, Store, StoreError, Timestamp,
};
use tidegate_conformance::StoreUnderTest;
use tidegate_conformance::proptest::test_runner::Config;

/// The store in memory, with a time that is set by hand.
pub(crate) struct Memory {
    limiter: Limiter,
    pub(crate) time: ManualClock,
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
}

impl<B: Behaviour> StoreUnderTest for FaultyStore<B> {
    fn empty(_seed: u64) -> Self {
        let time = ManualClock::at(Timestamp::from_micros(0));
        let memory = Memory { limiter: Limiter::default().with_clock(time.clock()), time };
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
