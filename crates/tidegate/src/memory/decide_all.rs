//! Several requests as one decision of a [`MemoryStore`].

use super::{
    MemoryStore,
    shard::{CheckedRequest, KeyRequest},
};
use crate::{
    answer::Outcome,
    decide_all::{Spend, SpendError, combine, distinct, refuse_in_flight},
    decision::{Decision, Decisions},
    op::Op,
    policy::Mode,
    reservation::open::Grant,
    timestamp::Timestamp,
};

impl MemoryStore {
    /// Decides several requests as one, in one atomic step: all of them are charged or, if one is denied, none is. A
    /// policy in shadow mode never denies. Two requests for the same policy and key are one request of the summed cost.
    ///
    /// # Errors
    /// If there are no requests or more than 64, if summed costs exceed 10^12, if two policies have the same name but
    /// different limits, or if a limit on the units in open holds is checked or charged.
    pub fn decide_all(&self, op: Op, spends: &[Spend<'_>], now: Timestamp) -> Result<Decisions, SpendError> {
        let (merged, merged_into) = distinct(spends)?;
        if op != Op::Peek {
            refuse_in_flight(spends)?;
        }
        let decided = self.decide_merged(op, &merged, None, now);
        Ok(combine(spends, merged_into.into_iter().map(|merged| decided[merged]).collect()))
    }

    /// Decides requests for different policies and keys as one. With `grants`, one for each request, it reserves them.
    pub(super) fn decide_merged(
        &self,
        op: Op,
        merged: &[Spend<'_>],
        grants: Option<&[Grant]>,
        now: Timestamp,
    ) -> Vec<Decision> {
        let requests: Vec<KeyRequest<'_>> =
            merged.iter().map(|spend| self.request(spend.policy, spend.key, spend.cost.get(), now)).collect();
        // Shards are locked in the order of their numbers, so that two decisions never wait for each other.
        let mut numbers: Vec<_> = requests.iter().map(|request| self.shard_number(request.id)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut locked: Vec<_> = numbers.iter().map(|number| self.shards[*number].shard.lock()).collect();
        let lock_of = |request: &KeyRequest<'_>| numbers.partition_point(|n| *n < self.shard_number(request.id));

        for request in &requests {
            let (shard, bounds) = (&mut locked[lock_of(request)], &self.shard(request.id).bounds);
            match grants {
                Some(_) => shard.evict_for_reservation(request, bounds),
                None => shard.evict_for(request, op, bounds),
            }
        }
        let mut checked: Vec<CheckedRequest> = Vec::with_capacity(requests.len());
        for (i, request) in requests.iter().enumerate() {
            let bounds = &self.shard(request.id).bounds;
            let shard = &mut locked[lock_of(request)];
            let mut check = match grants {
                Some(grants) => shard.check_reservation(request, &grants[i], bounds),
                None => shard.check(request, bounds, op == Op::Peek),
            };
            let spent_with = |(earlier, other): (&KeyRequest<'_>, &CheckedRequest)| {
                let spends = other.fits() || op == Op::Charge;
                let shares_state = other.shares_state_with(&check) && lock_of(earlier) == lock_of(request);
                if spends && shares_state { earlier.cost } else { 0 }
            };
            let earlier = requests.iter().zip(&checked).map(spent_with).sum();
            if earlier > 0 {
                check.add_earlier(request, earlier);
            }
            checked.push(check);
        }
        let any_enforced = |is: fn(&CheckedRequest) -> bool| {
            let mut all = requests.iter().zip(&checked);
            all.any(|(request, checked)| request.policy.mode() == Mode::Enforce && is(checked))
        };
        let admitted = !any_enforced(|checked| !checked.fits());
        // A charge that cannot be counted is denied, and then no request is charged.
        let countable = !any_enforced(CheckedRequest::is_refused);
        let mut order: Vec<_> = requests.iter().zip(checked).enumerate().collect();
        // A peek commits in reverse order, because the first request that uses an overflow state must restore it.
        if op == Op::Peek {
            order.reverse();
        }
        let mut decided = Vec::with_capacity(requests.len());
        for (i, (request, checked)) in order {
            let outcome = match (op, checked.fits()) {
                (Op::Charge, _) if countable || checked.is_refused() => Outcome::Charged,
                (Op::Check, true) if admitted => Outcome::Charged,
                (Op::Charge, _) | (_, true) => Outcome::NotCharged,
                (_, false) => Outcome::Denied,
            };
            let shard = &mut locked[lock_of(request)];
            let grant = grants.map(|grants| &grants[i]);
            let decision = shard.commit(request, checked, outcome, grant, &self.shard(request.id).bounds);
            shard.count(op, decision.is_allowed());
            decided.push(decision);
        }
        drop(locked);
        if op == Op::Peek {
            decided.reverse();
        }
        for (request, _) in requests.iter().zip(&decided).filter(|(_, decision)| decision.degraded) {
            self.sweep_other_half(request.id, now, op);
        }
        decided
    }
}
