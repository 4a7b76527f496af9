//! The reservations of a [`MemoryStore`].

use std::{sync::Arc, time::Duration};

use super::{
    BoundedShard, MemoryStore,
    id::{Id, nonce},
    shard::{Change, KeyRequest, Parts},
};
use crate::{
    cost::Cost,
    decide_all::{Spend, combine, distinct, overall},
    decision::Decision,
    external_store::unknown_reservation,
    key::Key,
    op::Op,
    policy::{Mode, Policy},
    reservation::{
        Hold, Lease, Leased, PolicySource, ReservationError, ReservationId, Reserved, ReservedAll, Settled,
        checked_amount,
        open::{Grant, Kind, Nonce, halves},
    },
    timestamp::Timestamp,
};

/// An operation on a hold of one or several requests.
#[derive(Debug, Clone, Copy)]
enum HoldChange<'a> {
    /// Closes it. There is one number for all requests, or one for each, in order.
    Commit(&'a [u64]),
    /// Sets its end to this time from now.
    Renew(Duration),
}

impl HoldChange<'_> {
    /// The change of one of `parts` requests, which is under `policy`.
    fn of_part(self, part: usize, parts: usize, policy: &Policy) -> Result<Change, ReservationError> {
        match self {
            Self::Commit([units]) => Ok(Change::Commit(*units)),
            Self::Commit(units) if units.len() == parts => Ok(Change::Commit(units[part])),
            Self::Commit(units) => Err(ReservationError::Amounts { given: units.len(), parts }),
            Self::Renew(ttl) => policy.reservation_bounds().hold_ttl(ttl).map(Change::Renew),
        }
    }

    /// The change of a hold that is not open, so that the number of its requests is not known.
    fn of_unknown(self, policy: &Policy) -> Result<Change, ReservationError> {
        match self {
            Self::Commit([units, ..]) => Ok(Change::Commit(*units)),
            _ => self.of_part(0, 1, policy),
        }
    }
}

impl MemoryStore {
    /// Reserves `cost` units until their actual cost is known. They are charged at once, as by a check.
    ///
    /// A hold that the store has no room to record is denied, even if the key is known. If the key is new and the store has
    /// no room for it, [`AtCapacity`](crate::AtCapacity) applies: under `Admit`, the id is never known.
    ///
    /// # Errors
    /// If the ttl of the hold is out of range.
    pub fn reserve(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        hold: Hold,
        now: Timestamp,
    ) -> Result<Reserved, ReservationError> {
        let ttl = policy.reservation_bounds().hold_ttl(hold.ttl())?;
        let request = self.request(policy, key, cost.get(), now);
        let BoundedShard { shard, bounds } = self.shard(request.id);
        let nonce = nonce();
        let grant = Grant { nonce: halves(nonce), ttl, kind: Kind::of_hold(hold.at_end()), parts: None };
        let decision = shard.lock().reserve(&request, &grant, bounds);
        if decision.degraded {
            self.sweep_other_half(request.id, now, Op::Check);
        }
        let id = decision.is_allowed().then(|| ReservationId::in_process(policy, nonce, request.id.number()));
        Ok(Reserved { decision, id })
    }

    /// Reserves several requests as one, in one atomic step: all of them or none. They have one id.
    ///
    /// # Errors
    /// If the ttl of the hold is out of range, or as [`decide_all`](Self::decide_all).
    pub fn reserve_all(
        &self,
        spends: &[Spend<'_>],
        hold: Hold,
        now: Timestamp,
    ) -> Result<ReservedAll, ReservationError> {
        self.reserve_among(spends, hold, now, |parts, _| parts)
    }

    /// The same for requests that are not all of those of a reservation. `all_parts` returns the ids of all of them, given
    /// the ids of `spends` and the random number. Those that are decided elsewhere have ids that are never granted.
    pub(crate) fn reserve_among(
        &self,
        spends: &[Spend<'_>],
        hold: Hold,
        now: Timestamp,
        all_parts: impl FnOnce(Vec<ReservationId>, [u8; 16]) -> Vec<ReservationId>,
    ) -> Result<ReservedAll, ReservationError> {
        let (merged, merged_into) = distinct(spends)?;
        let ids: Vec<Id> = merged.iter().map(|spend| self.fingerprints.id(spend.policy, spend.key)).collect();
        let nonce = nonce();
        let parts = merged_into.iter().map(|i| ReservationId::in_process(merged[*i].policy, nonce, ids[*i].number()));
        let parts: Vec<ReservationId> = parts.collect();
        let all_parts = all_parts(parts.clone(), nonce);
        let all_parts = (all_parts.len() > 1).then(|| Arc::new(ReservationId::join(&all_parts).into_boxed_slice()));
        let grant = |spend: &Spend<'_>| {
            let ttl = spend.policy.reservation_bounds().hold_ttl(hold.ttl())?;
            Ok(Grant { nonce: halves(nonce), ttl, kind: Kind::of_hold(hold.at_end()), parts: all_parts.clone() })
        };
        let grants: Vec<Grant> = merged.iter().map(grant).collect::<Result<_, ReservationError>>()?;
        let decided = self.decide_merged(Op::Check, &merged, Some(&grants), now);
        let decisions = combine(spends, merged_into.into_iter().map(|i| decided[i]).collect());
        // A shadow policy may admit a request that is not recorded.
        let recorded = decisions.parts.iter().position(|part| part.charged_at.is_some()).unwrap_or(0);
        let id = decisions.overall.is_allowed().then(|| parts[recorded].clone());
        Ok(ReservedAll { decisions, id })
    }

    /// Closes an open hold whose work took `actual` units: one number for all of its requests, or one for each, in order.
    /// Unused units are given back to the time of the grant, and units beyond those of the hold are charged now.
    ///
    /// # Errors
    /// If `actual` is malformed, or `policies` does not have the policy.
    pub fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
        now: Timestamp,
    ) -> Result<Settled, ReservationError> {
        for units in actual {
            checked_amount(*units)?;
        }
        if let [actual] = actual
            && let Some(settled) = self.commit_at_once(id, *actual, policies, now)?
        {
            return Ok(settled);
        }
        self.change_hold(id, HoldChange::Commit(actual), policies, now)
    }

    /// Sets the end of an open hold to `ttl` from now.
    ///
    /// # Errors
    /// If the ttl is out of range, or `policies` does not have the policy.
    pub fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
        now: Timestamp,
    ) -> Result<Settled, ReservationError> {
        self.change_hold(id, HoldChange::Renew(ttl), policies, now)
    }

    /// Sets units aside that a node may admit by itself for a short time. An earlier lease is settled first.
    ///
    /// # Errors
    /// If the lease is malformed.
    pub fn lease(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<Leased, ReservationError> {
        let ttl = lease.checked_ttl(policy)?;
        let request = self.request(policy, key, lease.least.get(), now);
        let settle = match &lease.settle {
            Some((earlier, spent)) if !earlier.is_never_granted() => {
                let (of_earlier, spent) = (request_of(earlier, policy, now)?, checked_amount(*spent)?);
                let nonce = halves(earlier.nonce());
                if of_earlier.id == request.id {
                    Some((nonce, spent))
                } else if self.has_lease(&of_earlier, nonce) {
                    return Err(ReservationError::OtherKey);
                } else {
                    // It has ended, or another process granted it: it is not open here.
                    None
                }
            }
            _ => None,
        };
        let BoundedShard { shard, bounds } = self.shard(request.id);
        let nonce = nonce();
        let grant = Grant { nonce: halves(nonce), ttl, kind: Kind::Lease, parts: None };
        let (decision, granted, settled) = shard.lock().lease(&request, lease, settle, &grant, bounds)?;
        let id = (granted > 0).then(|| ReservationId::in_process(policy, nonce, request.id.number()));
        let settled = settled.or(lease.settle.as_ref().map(|_| false));
        Ok(Leased::new(decision, id, granted, settled))
    }

    /// Closes an open lease of which `spent` units were spent. They are charged now.
    ///
    /// # Errors
    /// If more units were spent than the lease has, or `policies` does not have the policy.
    pub fn settle(
        &self,
        id: &ReservationId,
        spent: u64,
        policies: &dyn PolicySource,
        now: Timestamp,
    ) -> Result<Settled, ReservationError> {
        let change = Change::Settle(checked_amount(spent)?);
        let policy = id.policy(policies)?;
        if id.is_never_granted() {
            return Ok(unknown_reservation(&policy));
        }
        let request = request_of(id, &policy, now)?;
        let (decision, known) = self.change_one(&request, id, change)?;
        Ok(Settled { decision, known })
    }

    /// Closes the hold of the most common request. `None` for all others, without any change.
    fn commit_at_once(
        &self,
        id: &ReservationId,
        actual: u64,
        policies: &dyn PolicySource,
        now: Timestamp,
    ) -> Result<Option<Settled>, ReservationError> {
        let Some(policy) = id.policy_if_any(policies)?.filter(|_| !id.is_never_granted()) else { return Ok(None) };
        let request = request_of(id, &policy, now)?;
        let BoundedShard { shard, bounds } = self.shard(request.id);
        let decision = shard.lock().commit_one_limit(&request, halves(id.nonce()), actual, bounds);
        Ok(decision.map(|decision| Settled { decision, known: true }))
    }

    /// An id that is never open.
    pub(crate) fn never_granted(policy: &Policy) -> ReservationId {
        ReservationId::never_granted(policy, nonce())
    }

    /// Changes all requests of a hold.
    fn change_hold(
        &self,
        id: &ReservationId,
        change: HoldChange<'_>,
        policies: &dyn PolicySource,
        now: Timestamp,
    ) -> Result<Settled, ReservationError> {
        let Some(policy) = id.policy_if_any(policies)? else {
            return self.change_other_parts(id, change, policies, now);
        };
        if id.is_never_granted() {
            return change.of_unknown(&policy).map(|_| unknown_reservation(&policy));
        }
        let request = request_of(id, &policy, now)?;
        let BoundedShard { shard, bounds } = self.shard(request.id);
        let parts = shard.lock().parts_of(&request, halves(id.nonce()), bounds);
        let only = match parts {
            Some(Parts::Several(parts)) => return self.change_parts(&parts, id, change, policies, now),
            Some(Parts::One) => change.of_part(0, 1, &policy)?,
            None => change.of_unknown(&policy)?,
        };
        let (decision, known) = self.change_one(&request, id, only)?;
        Ok(Settled { decision, known })
    }

    /// Changes the other requests of a hold, the policy of whose id does not exist any more.
    fn change_other_parts(
        &self,
        id: &ReservationId,
        change: HoldChange<'_>,
        policies: &dyn PolicySource,
        now: Timestamp,
    ) -> Result<Settled, ReservationError> {
        if id.is_never_granted() {
            return Err(id.policy_gone());
        }
        let stand_in = id.stand_in_policy();
        let request = request_of(id, &stand_in, now)?;
        let BoundedShard { shard, bounds } = self.shard(request.id);
        let parts = shard.lock().parts_of(&request, halves(id.nonce()), bounds);
        match parts {
            Some(Parts::Several(parts)) => self.change_parts(&parts, id, change, policies, now),
            _ => Err(id.policy_gone()),
        }
    }

    /// Changes all requests of a hold of several requests in one atomic step. Those whose policy does not exist any more end
    /// by themselves.
    fn change_parts(
        &self,
        parts: &[u8],
        id: &ReservationId,
        change: HoldChange<'_>,
        policies: &dyn PolicySource,
        now: Timestamp,
    ) -> Result<Settled, ReservationError> {
        let parts = ReservationId::split(parts)?;
        if let HoldChange::Commit(units) = change
            && units.len() != 1
            && units.len() != parts.len()
        {
            return Err(ReservationError::Amounts { given: units.len(), parts: parts.len() });
        }
        let policies: Vec<_> = parts.iter().map(|part| part.policy_if_any(policies)).collect::<Result<_, _>>()?;
        let mut changes: Vec<(KeyRequest<'_>, Change)> = Vec::new();
        for (number, (part, policy)) in parts.iter().zip(&policies).enumerate() {
            let Some(policy) = policy else { continue };
            if part.is_never_granted() {
                continue;
            }
            let (request, change) = (request_of(part, policy, now)?, change.of_part(number, parts.len(), policy)?);
            // The same policy and key twice is one request of the summed cost.
            let same = changes.iter_mut().find(|(other, _)| other.id == request.id);
            match (same, change) {
                (Some((_, Change::Commit(units))), Change::Commit(more)) => *units += more,
                (Some(_), _) => {}
                (None, change) => changes.push((request, change)),
            }
        }
        if changes.is_empty() {
            return Err(id.policy_gone());
        }
        let mut numbers: Vec<_> = changes.iter().map(|(request, _)| self.shard_number(request.id)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut locked: Vec<_> = numbers.iter().map(|number| self.shards[*number].shard.lock()).collect();
        let (mut decisions, mut modes, mut known): (Vec<Decision>, Vec<Mode>, bool) = (Vec::new(), Vec::new(), false);
        for (request, change) in &changes {
            let shard = &mut locked[numbers.partition_point(|number| *number < self.shard_number(request.id))];
            let bounds = &self.shard(request.id).bounds;
            let (decision, was_known) = shard.change_reservation(request, halves(id.nonce()), *change, bounds)?;
            decisions.push(decision);
            modes.push(request.policy.mode());
            known |= was_known;
        }
        Ok(Settled { decision: overall(&modes, &decisions), known })
    }

    fn has_lease(&self, request: &KeyRequest<'_>, nonce: Nonce) -> bool {
        let BoundedShard { shard, bounds } = self.shard(request.id);
        shard.lock().has_lease(request, nonce, bounds)
    }

    fn change_one(
        &self,
        request: &KeyRequest<'_>,
        id: &ReservationId,
        change: Change,
    ) -> Result<(Decision, bool), ReservationError> {
        let BoundedShard { shard, bounds } = self.shard(request.id);
        shard.lock().change_reservation(request, halves(id.nonce()), change, bounds)
    }
}

/// A request for the key of a reservation.
fn request_of<'a>(id: &ReservationId, policy: &'a Policy, now: Timestamp) -> Result<KeyRequest<'a>, ReservationError> {
    Ok(KeyRequest { policy, id: id_of(id, policy)?, cost: 1, now: now.as_micros().cast_signed() })
}

/// The id of the key of a reservation.
#[inline]
fn id_of(id: &ReservationId, policy: &Policy) -> Result<Id, ReservationError> {
    id.state_in_process(policy).map(Id::of_number)
}
