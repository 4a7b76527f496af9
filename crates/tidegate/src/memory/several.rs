//! Several requests as one decision: all are charged, or none is.

use std::cmp::Reverse;

use super::{
    MemoryStore, Op,
    shard::{Part, Seen},
};
use crate::{
    cost::Cost,
    decision::{Decision, Decisions, Reason, Under},
    key::Key,
    policy::{Mode, Policy},
    timestamp::Timestamp,
    weigh::Outcome,
};

/// The most requests in one decision.
const MAX_PARTS: usize = 64;

/// One of several requests that are decided as one.
#[derive(Debug, Clone, Copy)]
pub struct Spend<'a> {
    /// By which limits.
    pub policy: &'a Policy,
    /// Who.
    pub key: &'a Key<'a>,
    /// How much.
    pub cost: Cost,
}

/// Why several requests can't be decided as one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpendError {
    /// There are none or too many.
    #[error("{parts} requests can't be one decision: use 1 to 64")]
    Parts {
        /// How many there are.
        parts: usize,
    },
    /// The same policy and key came more than once, and the costs add up to too much.
    #[error(
        "the costs of request {part} and of earlier ones for the same policy and key add up to more than 1000000000000"
    )]
    Sum {
        /// The request at which it was too much.
        part: usize,
    },
    /// Two policies of one name have different limits.
    #[error("request {part} names a policy that an earlier one names too, with other limits: use one of them")]
    Conflict {
        /// The later one.
        part: usize,
    },
}

impl MemoryStore {
    /// Decides several requests as one, in one atomic step: all are charged or, if one is denied, none. A policy in
    /// shadow mode has no say in it. The same policy and key twice is one request of the summed cost.
    ///
    /// # Errors
    /// If there are none or more than 64, if costs add up to more than 10^12, or if two policies of one name differ.
    pub fn decide_all<'a>(&self, op: Op, spends: &[Spend<'a>], now: Timestamp) -> Result<Decisions, SpendError> {
        let (distinct, part_of) = distinct(spends)?;
        let part = |spend: Spend<'a>| self.part(spend.policy, spend.key, spend.cost.get(), now);
        let parts: Vec<Part<'a>> = distinct.into_iter().map(part).collect();
        // Always in the order of their numbers, so that two decisions never wait for each other.
        let mut numbers: Vec<_> = parts.iter().map(|part| self.shard_number(part.id)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut locked: Vec<_> = numbers.iter().map(|number| self.shards[*number].shard.lock()).collect();
        let lock_of = |part: &Part<'_>| numbers.partition_point(|number| *number < self.shard_number(part.id));

        for part in &parts {
            locked[lock_of(part)].tidy_for(part, op, &self.shard(part.id).bounds);
        }
        let mut seen: Vec<Seen> = Vec::with_capacity(parts.len());
        for part in &parts {
            let mut met = locked[lock_of(part)].weigh(part, &self.shard(part.id).bounds, op == Op::Peek);
            let spent_with = |(earlier, other): (&Part<'_>, &Seen)| {
                let spends = other.fits() || op == Op::Charge;
                let shares = other.shares_with(&met) && lock_of(earlier) == lock_of(part);
                if spends && shares { earlier.cost } else { 0 }
            };
            let earlier = parts.iter().zip(&seen).map(spent_with).sum();
            if earlier > 0 {
                met.add_earlier(part, earlier);
            }
            seen.push(met);
        }
        let denies = |(part, seen): (&Part<'_>, &Seen)| part.policy.mode() == Mode::Enforce && !seen.fits();
        let admitted = !parts.iter().zip(&seen).any(denies);
        // A charge that can't be counted is denied, and then no part is charged.
        let refuses = |(part, seen): (&Part<'_>, &Seen)| part.policy.mode() == Mode::Enforce && seen.is_refused();
        let countable = !parts.iter().zip(&seen).any(refuses);
        let mut decided = Vec::with_capacity(parts.len());
        // The last is concluded first by a peek: the first of those that share a state has to put it back.
        let mut order: Vec<_> = parts.iter().zip(seen).collect();
        if op == Op::Peek {
            order.reverse();
        }
        for (part, seen) in order {
            let outcome = match (op, seen.fits()) {
                (Op::Charge, _) if countable || seen.is_refused() => Outcome::Charged,
                (Op::Check, true) if admitted => Outcome::Charged,
                (Op::Charge, _) | (_, true) => Outcome::Spared,
                (_, false) => Outcome::Denied,
            };
            let shard = &mut locked[lock_of(part)];
            let decision = shard.conclude(part, seen, outcome, &self.shard(part.id).bounds);
            shard.count(op, decision.is_allowed());
            decided.push(decision);
        }
        drop(locked);
        if op == Op::Peek {
            decided.reverse();
        }
        for (part, _) in parts.iter().zip(&decided).filter(|(_, decision)| decision.degraded) {
            self.sweep_other_half(part.id, now, op);
        }

        let parts: Vec<_> = part_of.into_iter().map(|distinct| decided[distinct]).collect();
        let overall = combine(spends, &parts);
        Ok(Decisions { overall, parts })
    }
}

/// The requests with those of the same policy and key added up, and which of them each of `spends` belongs to.
pub(crate) fn distinct<'a>(spends: &[Spend<'a>]) -> Result<(Vec<Spend<'a>>, Vec<usize>), SpendError> {
    if spends.is_empty() || spends.len() > MAX_PARTS {
        return Err(SpendError::Parts { parts: spends.len() });
    }
    let mut parts: Vec<Spend<'a>> = Vec::with_capacity(spends.len());
    let mut part_of = Vec::with_capacity(spends.len());
    for (number, spend) in spends.iter().enumerate() {
        let is_same = |part: &Spend<'_>| part.policy.identity() == spend.policy.identity() && part.key == spend.key;
        let Some(known) = parts.iter().position(is_same) else {
            part_of.push(parts.len());
            parts.push(*spend);
            continue;
        };
        let part = &mut parts[known];
        let same =
            |a: &Policy, b: &Policy| a.rules() == b.rules() && a.shape().id() == b.shape().id() && a.mode() == b.mode();
        if !same(part.policy, spend.policy) {
            return Err(SpendError::Conflict { part: number });
        }
        part.cost = Cost::new(part.cost.get() + spend.cost.get()).map_err(|_| SpendError::Sum { part: number })?;
        part_of.push(known);
    }
    Ok((parts, part_of))
}

/// The one decision that the parts' decisions amount to.
pub(crate) fn combine(spends: &[Spend<'_>], parts: &[Decision]) -> Decision {
    let all = || spends.iter().zip(parts).enumerate();
    let enforces = |spend: &Spend<'_>| spend.policy.mode() == Mode::Enforce;
    let any_enforces = spends.iter().any(enforces);
    let of_reason = |reason| move |(_, (_, decision)): &(usize, (&Spend<'_>, &Decision))| decision.reason == reason;

    let reason = [Reason::Banned, Reason::Impossible, Reason::StoreUnavailable, Reason::Limited, Reason::Shadow]
        .into_iter()
        .find(|reason| parts.iter().any(|decision| decision.reason == *reason))
        .unwrap_or(Reason::Allowed);
    // What watches only has no say, unless nothing else is there, or it is what is told of.
    let counts = |spend: &Spend<'_>, decision: &Decision| {
        enforces(spend) || !any_enforces || (reason == Reason::Shadow && decision.reason == Reason::Shadow)
    };
    let counted = || all().filter(|(_, (spend, decision))| counts(spend, decision));
    let bound = match reason {
        Reason::Allowed => {
            counted().min_by_key(|(_, (_, decision))| (decision.remaining, Reverse(decision.limit_reset_after_us)))
        }
        // Bans come first: those without an end, then the one that ends last. Then denials for which waiting does not
        // help, the smallest limit first. Then the longest wait.
        _ => all().filter(of_reason(reason)).min_by_key(|(_, (_, decision))| {
            match (decision.under, decision.retry_after_us) {
                (Under::Ban, None) => (0, Reverse(0), u64::MAX - decision.limit_reset_after_us),
                (Under::Ban, Some(end)) => (1, Reverse(end), u64::MAX - decision.limit_reset_after_us),
                (_, None) => (2, Reverse(0), decision.capacity),
                (_, Some(wait)) => (3, Reverse(wait), decision.capacity.saturating_sub(decision.used)),
            }
        }),
    };
    let (part, mut overall) = bound.map_or((0, parts[0]), |(part, (_, decision))| (part, *decision));
    overall.part = u16::try_from(part).unwrap_or(u16::MAX);
    for (_, (_, decision)) in counted() {
        overall.remaining = overall.remaining.min(decision.remaining);
        overall.reset_after_us = overall.reset_after_us.max(decision.reset_after_us);
    }
    overall.charged_at = parts.iter().filter_map(|decision| decision.charged_at).max();
    overall.degraded = parts.iter().any(|decision| decision.degraded);
    overall
}
