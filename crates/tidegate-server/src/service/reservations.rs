//! Reservations: holds that callers commit, and leases of nodes.

use std::{borrow::Cow, sync::Arc};

use tidegate::{Hold, Lease, Op, Policy, PolicySource, ReservationError, ReservationId};

use super::{
    ActivePolicies, ChangedReservation, KeyRequest, LeaseDecision, LimitSource, PolicyDecision, PolicyDecisions,
    Refusal, ReservationChange, ReservedDecision, ResolvedRequest, Service, count,
    open_holds::{HoldPart, HoldParts},
    spends,
};
use crate::metrics::{PolicyCounters, Stopwatch, Transport};

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
        self.track(reserved.id.as_ref(), hold, std::slice::from_ref(request), &[(counters, observer.is_some())]);
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
        let parts: Vec<_> = resolved.iter().map(|one| (one.counters, one.observer.is_some())).collect();
        self.track(reserved.id.as_ref(), hold, requests, &parts);
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
        Ok(LeaseDecision { reserved, granted: leased.granted, settled: leased.settled, ttl: leased.ttl })
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
        let policy = match id.policy(active) {
            // The reservation may have requests of other policies, which the store settles. The answer names none of them.
            Err(ReservationError::PolicyGone { .. }) => {
                let limits = id.stand_in_policy().limits().to_vec();
                Cow::Owned(Policy::unnamed(limits).map_err(|_| ReservationError::Id)?)
            }
            policy => policy?,
        };
        let settled = match change {
            ReservationChange::Commit(actual) => self.store.commit(&id, actual, active).await?,
            ReservationChange::Release => self.store.release(&id, active).await?,
            ReservationChange::Renew(ttl) => self.store.renew(&id, ttl, active).await?,
            ReservationChange::Settle(spent) => self.store.settle(&id, spent, active).await?,
        };
        let now = self.clock.now();
        let counters = || self.counters_of(active, &id).holds();
        match (change, settled.known) {
            // The store did not answer the reserve, so the metrics have no such hold.
            (_, false) if id.is_never_granted() => {}
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

    /// Counts and tracks a hold that was granted. An id without a hold is never open. Each request has its counters, and
    /// whether its policy is configured.
    fn track(
        &self,
        id: Option<&ReservationId>,
        hold: Hold,
        requests: &[KeyRequest<'_>],
        parts: &[(&PolicyCounters, bool)],
    ) {
        let Some(id) = id.filter(|id| !id.is_never_granted()) else { return };
        let mut holds = HoldParts::new();
        for (request, (of_policy, is_configured)) in requests.iter().zip(parts) {
            if let (LimitSource::Policy(name), true) = (&request.source, is_configured) {
                let counters = of_policy.holds();
                let is_known = holds.iter().flat_map(|part| &part.counters).any(|known| Arc::ptr_eq(known, counters));
                let counters = (!is_known).then(|| Arc::clone(counters));
                holds.push(HoldPart { counters, key: self.holds.key_hash(name, &request.key) });
            }
        }
        match parts.first() {
            // Only limits supplied by callers.
            Some((supplied, _)) if holds.is_empty() => {
                supplied.holds().granted.inc();
            }
            _ => self.holds.granted(id, self.clock.now(), hold.ttl(), holds),
        }
    }

    /// Returns the counters of the policy of a reservation.
    fn counters_of<'s>(&'s self, active: &'s ActivePolicies, id: &ReservationId) -> &'s PolicyCounters {
        let configured = id.policy_name().and_then(|name| active.policies.get(name));
        configured.map_or(&self.metrics.supplied, |configured| &active.counters[configured.index])
    }
}
