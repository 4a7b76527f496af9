//! [`Limiter`]: a store and a clock.

use crate::{
    clock::Clock,
    cost::Cost,
    decide_all::{Spend, SpendError},
    decision::{Decision, Decisions, Refund},
    inspect::Inspection,
    key::Key,
    memory::MemoryStore,
    op::Op,
    overrides::{ActiveOverride, Override, OverrideError},
    policy::Policy,
    timestamp::Timestamp,
};

/// Limits by any key: a store for the state and a clock for the time.
///
/// It is shared by reference or in an `Arc`, by threads and tasks alike; a decision takes well under a microsecond and never
/// waits for anything but a lock held for as long.
///
/// ```
/// use tidegate::{Cost, Key, Limiter, Policy};
///
/// let limiter = Limiter::default();
/// let api = Policy::new("api", ["100/1m".parse()?])?;
/// let decision = limiter.check(&api, &Key::new("alice")?, Cost::ONE);
/// if !decision.is_allowed() {
///     println!("come back in {:?}", decision.retry_after());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Limiter {
    store: MemoryStore,
    clock: Clock,
}

impl Limiter {
    /// Limits with the state in `store`, by the system's clock.
    pub fn new(store: MemoryStore) -> Self {
        let clock = Clock::system();
        Self { store, clock }
    }

    /// The same with another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Spends `cost` if it fits.
    #[inline]
    pub fn check(&self, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
        self.store.decide(Op::Check, policy, key, cost, self.clock.now())
    }

    /// Answers as [`check`](Self::check) would and spends nothing; what remains is told as it is before the spend.
    pub fn peek(&self, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
        self.store.decide(Op::Peek, policy, key, cost, self.clock.now())
    }

    /// Spends `cost` even past the limit: for a cost that is known only afterwards.
    pub fn charge(&self, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
        self.store.decide(Op::Charge, policy, key, cost, self.clock.now())
    }

    /// Spends all of `spends` if all fit, else none.
    ///
    /// # Errors
    /// See [`MemoryStore::decide_all`].
    pub fn check_all(&self, spends: &[Spend<'_>]) -> Result<Decisions, SpendError> {
        self.store.decide_all(Op::Check, spends, self.clock.now())
    }

    /// Answers as [`check_all`](Self::check_all) would and spends nothing.
    ///
    /// # Errors
    /// See [`MemoryStore::decide_all`].
    pub fn peek_all(&self, spends: &[Spend<'_>]) -> Result<Decisions, SpendError> {
        self.store.decide_all(Op::Peek, spends, self.clock.now())
    }

    /// Spends all of `spends` whether they fit or not.
    ///
    /// # Errors
    /// See [`MemoryStore::decide_all`].
    pub fn charge_all(&self, spends: &[Spend<'_>]) -> Result<Decisions, SpendError> {
        self.store.decide_all(Op::Charge, spends, self.clock.now())
    }

    /// Gives units back to the moment they were charged at ([`Decision::charged_at`]), not to now.
    pub fn refund(&self, policy: &Policy, key: &Key<'_>, cost: Cost, charged_at: Timestamp) -> Refund {
        self.store.refund(policy, key, cost, charged_at, self.clock.now())
    }

    /// Forgets a key's state under a policy, not its override; whether there was anything to forget.
    pub fn reset(&self, policy: &Policy, key: &Key<'_>) -> bool {
        self.store.reset(policy, key)
    }

    /// Shows the state of a key under a policy, if it has one.
    pub fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Option<Inspection> {
        self.store.inspect(policy, key, self.clock.now())
    }

    /// Overrides the limits of a key under a policy; the override that held until now, if there was one.
    ///
    /// # Errors
    /// See [`MemoryStore::set_override`].
    pub fn set_override(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        by: Override,
    ) -> Result<Option<Override>, OverrideError> {
        self.store.set_override(policy, key, by, self.clock.now())
    }

    /// Ends the override of a key under a policy; what it was, if it still held.
    pub fn remove_override(&self, policy: &Policy, key: &Key<'_>) -> Option<Override> {
        self.store.remove_override(policy, key, self.clock.now())
    }

    /// The override of a key under a policy, if one holds.
    pub fn override_of(&self, policy: &Policy, key: &Key<'_>) -> Option<ActiveOverride> {
        self.store.override_of(policy, key, self.clock.now())
    }

    /// All overrides of a policy that hold, in the order of their keys.
    pub fn overrides(&self, policy: &Policy) -> Vec<ActiveOverride> {
        self.store.overrides(policy, self.clock.now())
    }

    /// The store, for its figures.
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}
