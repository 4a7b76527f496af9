//! [`Limiter`]: a store and a clock.

use std::time::Duration;

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
    reservation::{
        Hold, Lease, Leased, PolicySource, ReservationError, ReservationId, Reserved, ReservedAll, Settled,
        refuse_in_flight,
    },
    store::{EventCount, Metric, Store, StoreError, StoreReport, StoreUsage},
    timestamp::Timestamp,
};

/// Limits requests by key: a store for the state and a clock for the time.
///
/// Threads and tasks share it by reference or in an `Arc`. A decision takes well under a microsecond. It waits for nothing
/// but a lock, which is held for that time.
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
    /// A limiter with its state in `store` and the clock of the system.
    pub fn new(store: MemoryStore) -> Self {
        let clock = Clock::system();
        Self { store, clock }
    }

    /// The same limiter with another clock.
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

    /// Answers as [`check`](Self::check) would, and spends nothing. The remaining units are those before the spend.
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

    /// Gives units back to the moment they were charged ([`Decision::charged_at`]), not to now.
    pub fn refund(&self, policy: &Policy, key: &Key<'_>, cost: Cost, charged_at: Timestamp) -> Refund {
        self.store.refund(policy, key, cost, charged_at, self.clock.now())
    }

    /// Deletes the state of a key under a policy, but not its override. Returns whether there was a state.
    pub fn reset(&self, policy: &Policy, key: &Key<'_>) -> bool {
        self.store.reset(policy, key)
    }

    /// Shows the state of a key under a policy, if there is one.
    pub fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Option<Inspection> {
        self.store.inspect(policy, key, self.clock.now())
    }

    /// Reserves `cost` units until their actual cost is known. They are charged at once, as by a check.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Cost, Hold, Key, Limiter, Policy};
    ///
    /// let limiter = Limiter::default();
    /// let tokens = Policy::new("tokens", ["1000/1m".parse()?])?;
    /// let hold = Hold::new(Duration::from_secs(60));
    /// let reserved = limiter.reserve(&tokens, &Key::new("alice")?, Cost::new(400)?, hold)?;
    /// if let Some(id) = reserved.id {
    ///     let used_by_the_model = 250;
    ///     let settled = limiter.commit(&id, &[used_by_the_model], &tokens)?;
    ///     assert_eq!(settled.decision.remaining(), 750);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`MemoryStore::reserve`].
    pub fn reserve(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        hold: Hold,
    ) -> Result<Reserved, ReservationError> {
        self.store.reserve(policy, key, cost, hold, self.clock.now())
    }

    /// Reserves several requests as one: all of them or none. They have one id.
    ///
    /// # Errors
    /// See [`MemoryStore::reserve_all`].
    pub fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, ReservationError> {
        self.store.reserve_all(spends, hold, self.clock.now())
    }

    /// Closes an open hold whose work took `actual` units: one number for all of its requests, or one for each, in order.
    ///
    /// # Errors
    /// See [`MemoryStore::commit`].
    pub fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, ReservationError> {
        self.store.commit(id, actual, policies, self.clock.now())
    }

    /// Closes an open hold and gives all of its units back.
    ///
    /// # Errors
    /// See [`MemoryStore::commit`].
    pub fn release(&self, id: &ReservationId, policies: &dyn PolicySource) -> Result<Settled, ReservationError> {
        self.commit(id, &[0], policies)
    }

    /// Sets the end of an open hold to `ttl` from now.
    ///
    /// # Errors
    /// See [`MemoryStore::renew`].
    pub fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, ReservationError> {
        self.store.renew(id, ttl, policies, self.clock.now())
    }

    /// Sets units aside that a node may admit by itself for a short time.
    ///
    /// # Errors
    /// See [`MemoryStore::lease`].
    pub fn lease(&self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, ReservationError> {
        self.store.lease(policy, key, lease, self.clock.now())
    }

    /// Closes an open lease of which `spent` units were spent.
    ///
    /// # Errors
    /// See [`MemoryStore::settle`].
    pub fn settle(
        &self,
        id: &ReservationId,
        spent: u64,
        policies: &dyn PolicySource,
    ) -> Result<Settled, ReservationError> {
        self.store.settle(id, spent, policies, self.clock.now())
    }

    /// Overrides the limits of a key under a policy. Returns the override that it replaces.
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

    /// Removes the override of a key under a policy. Returns the override if it was in force.
    pub fn remove_override(&self, policy: &Policy, key: &Key<'_>) -> Option<Override> {
        self.store.remove_override(policy, key, self.clock.now())
    }

    /// The override of a key under a policy, if one is in force.
    pub fn override_of(&self, policy: &Policy, key: &Key<'_>) -> Option<ActiveOverride> {
        self.store.override_of(policy, key, self.clock.now())
    }

    /// All overrides of a policy that are in force, in the order of their keys.
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

/// Every operation is immediate.
impl Store for Limiter {
    #[inline]
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        self.decide_now(op, policy, key, cost)
    }

    #[inline]
    fn decide_now(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        if policy.has_in_flight_limit() && op != Op::Peek {
            refuse_in_flight(policy)?;
        }
        Ok(self.store.decide(op, policy, key, cost, self.clock.now()))
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        Ok(self.store.decide_all(op, spends, self.clock.now())?)
    }

    async fn refund(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Result<Refund, StoreError> {
        Ok(self.refund(policy, key, cost, charged_at))
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        Ok(self.reset(policy, key))
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        Ok(self.inspect(policy, key))
    }

    async fn set_override(&self, policy: &Policy, key: &Key<'_>, by: Override) -> Result<Option<Override>, StoreError> {
        Ok(self.set_override(policy, key, by)?)
    }

    async fn remove_override(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Override>, StoreError> {
        Ok(self.remove_override(policy, key))
    }

    async fn override_of(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<ActiveOverride>, StoreError> {
        Ok(self.override_of(policy, key))
    }

    async fn overrides(&self, policy: &Policy) -> Result<Vec<ActiveOverride>, StoreError> {
        Ok(self.overrides(policy))
    }

    async fn reserve(&self, policy: &Policy, key: &Key<'_>, cost: Cost, hold: Hold) -> Result<Reserved, StoreError> {
        Ok(self.reserve(policy, key, cost, hold)?)
    }

    async fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, StoreError> {
        Ok(self.reserve_all(spends, hold)?)
    }

    async fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        Ok(self.commit(id, actual, policies)?)
    }

    async fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        Ok(self.renew(id, ttl, policies)?)
    }

    async fn lease(&self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, StoreError> {
        Ok(self.lease(policy, key, lease)?)
    }

    async fn settle(&self, id: &ReservationId, spent: u64, policies: &dyn PolicySource) -> Result<Settled, StoreError> {
        Ok(self.settle(id, spent, policies)?)
    }

    #[inline]
    fn is_immediate(&self) -> bool {
        true
    }

    fn has_leases(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn report(&self) -> StoreReport {
        let stats = self.store.stats();
        let of_policies = stats.refused - stats.caller_refused;
        let mut report = StoreReport::new("memory");
        report.usage = Some(StoreUsage {
            keys: stats.keys,
            max_keys: self.store.max_keys(),
            bytes: stats.bytes,
            max_bytes: self.store.max_bytes(),
            evicted: stats.evicted,
            no_room: stats.refused,
        });
        report.event_counts = vec![
            EventCount {
                cause: "no_room",
                count: of_policies,
                what: "requests for new keys found no room".into(),
                cure: "raise max_keys or max_bytes of [store], or find the client that creates so many keys",
            },
            EventCount {
                cause: "no_room_for_callers",
                count: stats.caller_refused,
                what: "requests with limits supplied by callers found no room; policies are not affected".into(),
                cure: "raise caller_share of [store], or find the caller that supplies so many keys or windows",
            },
        ];
        let causes = [("no_room", of_policies), ("no_room_for_callers", stats.caller_refused)];
        report.metrics = vec![
            Metric::gauge("keys", "Keys that have a state of their own", stats.keys as u64),
            Metric::gauge("bytes", "Bytes held for states", stats.bytes as u64),
            Metric::counter("evicted", "Expired states that were evicted", stats.evicted),
            Metric::gauge("caller_keys", "Keys with limits supplied by callers", stats.caller_keys as u64),
            Metric::gauge("caller_bytes", "Bytes held for limits supplied by callers", stats.caller_bytes as u64),
            Metric::counter("no_room", "Requests for keys without room", stats.refused),
            Metric::counter(
                "caller_no_room",
                "Requests for keys without room, with limits supplied by callers",
                stats.caller_refused,
            ),
            Metric::degraded_answers(causes),
        ];
        report
    }
}
