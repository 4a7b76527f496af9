//! [`Fallback`]: answers while a store gives none.
//!
//! `open` admits uncounted, `closed` denies, and `local` decides in this process's memory by a share of the limits.
//! Units that were spent locally stay in use until their windows have passed, so a connection that comes and goes
//! refills nothing.

use std::{borrow::Cow, time::Duration};

use crate::{
    Clock, Cost, Decision, Hold, Key, Lease, Leased, MemoryStore, OnStoreFailure, Op, Policy, PolicySource,
    ReservationError, ReservationId, Reserved, ReservedAll, Settled, Share, Spend, external_store,
};

/// Answers requests by their [`OnStoreFailure`] choice while a store gives no answer. Every answer is marked
/// [degraded](Decision::is_degraded).
#[derive(Debug, Default)]
pub struct Fallback {
    local: MemoryStore,
    clock: Clock,
}

impl Fallback {
    /// Decides one request by `choice`.
    #[inline]
    pub fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost, choice: OnStoreFailure) -> Decision {
        match choice {
            OnStoreFailure::Open => external_store::without_store(policy, true),
            OnStoreFailure::Closed => external_store::without_store(policy, false),
            OnStoreFailure::Local(share) => {
                let now = self.clock.now();
                let decision = match policy.local() {
                    _ if share == Share::ALL => self.local.decide(op, policy, key, cost, now),
                    Some(local) if policy.on_store_failure() == choice => self.local.decide(op, local, key, cost, now),
                    _ => self.local.decide(op, &policy.share(share), key, cost, now),
                };
                external_store::degraded(decision)
            }
        }
    }

    /// Reserves one request by `choice`. `open` admits it with an id that is never known. The ids of `local` are those of
    /// [`commit`](Self::commit) and [`renew`](Self::renew).
    ///
    /// # Errors
    /// If the ttl of the hold is out of range.
    pub fn reserve(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        hold: Hold,
        choice: OnStoreFailure,
    ) -> Result<Reserved, ReservationError> {
        policy.reservation_bounds().hold_ttl(hold.ttl())?;
        if let OnStoreFailure::Local(share) = choice {
            let now = self.clock.now();
            let reserved = match policy.local() {
                _ if share == Share::ALL => self.local.reserve(policy, key, cost, hold, now),
                Some(local) if policy.on_store_failure() == choice => self.local.reserve(local, key, cost, hold, now),
                _ => self.local.reserve(&policy.share(share), key, cost, hold, now),
            }?;
            return Ok(Reserved { decision: external_store::degraded(reserved.decision), ..reserved });
        }
        let decision = external_store::without_store(policy, choice == OnStoreFailure::Open);
        Ok(Reserved { id: decision.is_allowed().then(|| MemoryStore::never_granted(policy)), decision })
    }

    /// Reserves several requests as one, each by the choice of its policy. If one is denied, none is reserved. The id is that
    /// of [`commit`](Self::commit) and [`renew`](Self::renew) if a choice is `local`; otherwise it is never known.
    ///
    /// # Errors
    /// If the ttl of the hold is out of range, or the requests can't be decided as one.
    pub fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, ReservationError> {
        self.reserve_all_by(spends, hold, |spend| spend.policy.on_store_failure())
    }

    /// The same, each by its `choice`.
    ///
    /// # Errors
    /// As [`reserve_all`](Self::reserve_all).
    pub fn reserve_all_by(
        &self,
        spends: &[Spend<'_>],
        hold: Hold,
        choice: impl Fn(&Spend<'_>) -> OnStoreFailure,
    ) -> Result<ReservedAll, ReservationError> {
        let (distinct, part_of) = external_store::distinct(spends)?;
        for spend in &distinct {
            spend.policy.reservation_bounds().hold_ttl(hold.ttl())?;
        }
        let is_local = |spend: &Spend<'_>| matches!(choice(spend), OnStoreFailure::Local(_));
        let peek = |spend: &Spend<'_>| self.decide(Op::Peek, spend.policy, spend.key, spend.cost, choice(spend));
        let mut decided: Vec<Decision> = distinct.iter().map(peek).collect();
        let is_denied = decided.iter().any(|decision| !decision.is_allowed());
        // The requests that are decided locally are reserved in one step, so their holds have one id.
        let locals: Vec<(usize, Cow<'_, Policy>)> = (0..spends.len())
            .filter(|i| !is_denied && is_local(&spends[*i]))
            .map(|i| (i, local_policy(spends[i].policy, choice(&spends[i]))))
            .collect();
        let mut id = (!is_denied).then(|| MemoryStore::never_granted(spends[0].policy));
        if !locals.is_empty() {
            let here: Vec<Spend<'_>> = locals.iter().map(|(i, policy)| Spend { policy, ..spends[*i] }).collect();
            let all_parts = |local_ids: Vec<ReservationId>, nonce| {
                let never_granted = |spend: &Spend<'_>| ReservationId::never_granted(spend.policy, nonce);
                let mut ids: Vec<ReservationId> = spends.iter().map(never_granted).collect();
                for ((i, _), id) in locals.iter().zip(local_ids) {
                    ids[*i] = id;
                }
                ids
            };
            let reserved = self.local.reserve_among(&here, hold, self.clock.now(), all_parts)?;
            for ((i, _), decision) in locals.iter().zip(reserved.decisions.parts) {
                decided[part_of[*i]] = external_store::degraded(decision);
            }
            id = reserved.id;
        }
        let decisions = external_store::combine(spends, part_of.into_iter().map(|part| decided[part]).collect());
        Ok(ReservedAll { decisions, id })
    }

    /// Grants a lease by `choice`. `open` grants all that is asked, uncounted. An earlier lease is settled if it was granted
    /// here.
    ///
    /// # Errors
    /// If the lease is malformed.
    pub fn lease(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        lease: &Lease,
        choice: OnStoreFailure,
    ) -> Result<Leased, ReservationError> {
        lease.checked_ttl(policy)?;
        let settle =
            |(id, spent): &(ReservationId, u64)| self.settle(id, *spent, policy).is_ok_and(|earlier| earlier.known);
        let settled = lease.settle.as_ref().map(settle);
        if let OnStoreFailure::Local(share) = choice {
            let now = self.clock.now();
            let new = Lease { settle: None, ..lease.clone() };
            let leased = match policy.local() {
                _ if share == Share::ALL => self.local.lease(policy, key, &new, now),
                Some(local) if policy.on_store_failure() == choice => self.local.lease(local, key, &new, now),
                _ => self.local.lease(&policy.share(share), key, &new, now),
            }?;
            return Ok(Leased { decision: external_store::degraded(leased.decision), settled, ..leased });
        }
        let decision = external_store::without_store(policy, choice == OnStoreFailure::Open);
        let granted = if decision.is_allowed() { lease.asked.get() } else { 0 };
        let id = decision.is_allowed().then(|| MemoryStore::never_granted(policy));
        Ok(Leased::new(decision, id, granted, settled))
    }

    /// Settles a lease that was granted here.
    ///
    /// # Errors
    /// As [`MemoryStore::settle`].
    pub fn settle(
        &self,
        id: &ReservationId,
        spent: u64,
        policies: &dyn PolicySource,
    ) -> Result<Settled, ReservationError> {
        self.local.settle(id, spent, &LocalPolicies(policies), self.clock.now())
    }

    /// Commits a hold that was granted here.
    ///
    /// # Errors
    /// As [`MemoryStore::commit`].
    pub fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, ReservationError> {
        self.local.commit(id, actual, &LocalPolicies(policies), self.clock.now())
    }

    /// Renews a hold that was granted here.
    ///
    /// # Errors
    /// As [`MemoryStore::renew`].
    pub fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, ReservationError> {
        self.local.renew(id, ttl, &LocalPolicies(policies), self.clock.now())
    }

    /// Decides several distinct requests as one, each by the choice of its policy. If one is denied, none is charged.
    pub(crate) fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Vec<Decision> {
        if op == Op::Check {
            // Others may charge between the peek and the charge. A local decision is an estimate in any case.
            let peeked = self.decide_each(Op::Peek, spends);
            if !peeked.iter().all(Decision::is_allowed) {
                return peeked;
            }
        }
        self.decide_each(op, spends)
    }

    fn decide_each(&self, op: Op, spends: &[Spend<'_>]) -> Vec<Decision> {
        let decide =
            |spend: &Spend<'_>| self.decide(op, spend.policy, spend.key, spend.cost, spend.policy.on_store_failure());
        spends.iter().map(decide).collect()
    }
}

/// The policy that decides in this process by `choice`.
fn local_policy(policy: &Policy, choice: OnStoreFailure) -> Cow<'_, Policy> {
    match (choice, policy.local()) {
        (OnStoreFailure::Local(share), _) if share == Share::ALL => Cow::Borrowed(policy),
        (_, Some(local)) if policy.on_store_failure() == choice => Cow::Borrowed(local),
        (OnStoreFailure::Local(share), _) => Cow::Owned(policy.share(share)),
        _ => Cow::Borrowed(policy),
    }
}

/// Finds the share of a policy that decides in this process.
struct LocalPolicies<'a>(&'a dyn PolicySource);

impl PolicySource for LocalPolicies<'_> {
    fn find(&self, name: &str) -> Option<&Policy> {
        let policy = self.0.find(name)?;
        Some(policy.local().unwrap_or(policy))
    }
}
