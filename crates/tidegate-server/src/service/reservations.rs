//! Reservations: holds that callers commit, and leases of nodes.

use tidegate::{Hold, Lease, Op, Policy, PolicySource, ReservationId};

use super::{
    ActivePolicies, ChangedReservation, KeyRequest, LeaseDecision, PolicyDecision, PolicyDecisions, Refusal,
    ReservationChange, ReservedDecision, ResolvedRequest, Service, count, spends,
};
use crate::metrics::{HoldCounters, PolicyCounters, Stopwatch, Transport};

impl PolicySource for ActivePolicies {
    fn find(&self, name: &str) -> Option<&Policy> {
        self.policies.get(name).map(|configured| &configured.policy)
    }
}

impl Service {
    /// Reserves one request.
    ///
    /// # Errors
    /// If the request contains an unknown name or limits that callers may not supply, or if the hold is malformed.
    pub async fn reserve<'p>(
        &self,
        from: Transport,
        active: &'p ActivePolicies,
        request: &KeyRequest<'_>,
        hold: Hold,
    ) -> Result<ReservedDecision<PolicyDecision<'p>>, Refusal> {
        let watch = Stopwatch::start();
        let resolved = self.resolve(active, request)?.with_choice_of(request);
        let ResolvedRequest { policy, cost, counters, observer } = resolved;
        let reserved = self.store.reserve(&policy, &request.key, cost, hold).await?;
        count(counters, observer, &reserved.decision, request);
        self.track(reserved.id.as_ref(), hold, || Box::new([counters.holds().clone()]));
        counters.took(from, watch.nanos());
        Ok(ReservedDecision { decided: PolicyDecision { decision: reserved.decision, policy }, id: reserved.id })
    }

    /// Reserves several requests as one, all or nothing. They have one id.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve), or if there are too many requests.
    pub async fn reserve_all<'p>(
        &self,
        from: Transport,
        active: &'p ActivePolicies,
        requests: &[KeyRequest<'_>],
        hold: Hold,
    ) -> Result<ReservedDecision<PolicyDecisions<'p>>, Refusal> {
        let watch = Stopwatch::start();
        let resolved = self.resolve_all(active, requests)?;
        let reserved = self.store.reserve_all(&spends(requests, &resolved), hold).await?;
        self.track(reserved.id.as_ref(), hold, || {
            let mut each: Vec<&PolicyCounters> = Vec::with_capacity(resolved.len());
            for one in &resolved {
                if !each.iter().any(|known| std::ptr::eq(*known, one.counters)) {
                    each.push(one.counters);
                }
            }
            each.into_iter().map(|counters| counters.holds().clone()).collect()
        });
        let decided = self.counted(from, Op::Check, requests, resolved, reserved.decisions, &watch);
        Ok(ReservedDecision { decided, id: reserved.id })
    }

    /// Grants a lease.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub async fn lease<'p>(
        &self,
        from: Transport,
        active: &'p ActivePolicies,
        request: &KeyRequest<'_>,
        lease: &Lease,
    ) -> Result<LeaseDecision<'p>, Refusal> {
        let watch = Stopwatch::start();
        let resolved = self.resolve(active, request)?.with_choice_of(request);
        let ResolvedRequest { policy, counters, observer, .. } = resolved;
        let leased = self.store.lease(&policy, &request.key, lease).await?;
        count(counters, observer, &leased.decision, request);
        counters.took(from, watch.nanos());
        let decided = PolicyDecision { decision: leased.decision, policy };
        let reserved = ReservedDecision { decided, id: leased.id };
        Ok(LeaseDecision { reserved, granted: leased.granted, settled: leased.settled })
    }

    /// Commits, releases or renews a hold, or settles a lease.
    ///
    /// # Errors
    /// If the id or the change is malformed, the policy of the reservation does not exist any more, or the store does not
    /// answer. A repeated commit, release or settle is harmless.
    pub async fn change_reservation<'p>(
        &self,
        active: &'p ActivePolicies,
        id: &str,
        change: ReservationChange<'_>,
    ) -> Result<ChangedReservation<'p>, Refusal> {
        let id: ReservationId = id.parse().map_err(Refusal::Reservation)?;
        let policy = id.policy(active)?;
        let settled = match change {
            ReservationChange::Commit(actual) => self.store.commit(&id, actual, active).await?,
            ReservationChange::Release => self.store.release(&id, active).await?,
            ReservationChange::Renew(ttl) => self.store.renew(&id, ttl, active).await?,
            ReservationChange::Settle(spent) => self.store.settle(&id, spent, active).await?,
        };
        let now = self.clock.now();
        let counters = || self.counters_of(active, &id).holds();
        match (change, settled.known) {
            (_, false) => {
                counters().unknown.inc();
                self.holds.gone(&id, now);
            }
            (ReservationChange::Commit(_) | ReservationChange::Release, true) => {
                if !self.holds.closed(&id, now) {
                    counters().closed.inc();
                }
            }
            (ReservationChange::Renew(ttl), true) => self.holds.renewed(&id, now, ttl),
            // A settle closes a lease, not a hold.
            (ReservationChange::Settle(_), true) => {}
        }
        Ok(ChangedReservation { settled, policy })
    }

    /// Counts the holds that end until now as ended.
    pub(crate) fn end_holds(&self) {
        self.holds.end_until(self.clock.now());
    }

    /// Tracks a hold that was granted. An id without a hold is never open.
    fn track(&self, id: Option<&ReservationId>, hold: Hold, counters: impl FnOnce() -> Box<[HoldCounters]>) {
        if let Some(id) = id
            && !id.is_never_granted()
        {
            self.holds.granted(id, self.clock.now(), hold.ttl(), counters());
        }
    }

    /// Returns the counters of the policy of a reservation.
    fn counters_of<'s>(&'s self, active: &'s ActivePolicies, id: &ReservationId) -> &'s PolicyCounters {
        let configured = id.policy_name().and_then(|name| active.policies.get(name));
        configured.map_or(&self.metrics.supplied, |configured| &active.counters[configured.index])
    }
}
