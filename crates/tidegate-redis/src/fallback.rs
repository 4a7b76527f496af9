//! [`Fallback`]: the answers while Redis gives none.
//!
//! `open` lets through, `closed` denies, `local` decides in this process's memory by a share of the limits. What was spent
//! locally is kept until its windows have passed, so a link that comes and goes refills nothing.
//!
//! `open` admits everything only while the server does not answer at all. It denies a request that was shed because the server
//! does not keep up. If the server answers too late or refuses a request (it has no memory left, for example), `open` decides
//! locally by the whole limits, so that a client that makes the server slow or full gets no more than its limit. [`AtCapacity`]
//! decides on a request for a key without room.

use std::sync::Arc;

use tidegate::{
    AtCapacity, Clock, Cost, Decision, Key, MemoryStore, OnStoreFailure, Op, Policy, Reason, Share, Spend,
    external_store,
};

use crate::{
    error::Error,
    stats::{Counters, count},
};

#[derive(Debug)]
pub(crate) struct Fallback {
    local: MemoryStore,
    clock: Clock,
    counters: Arc<Counters>,
    at_capacity: AtCapacity,
}

impl Fallback {
    pub(crate) fn new(counters: Arc<Counters>, at_capacity: AtCapacity) -> Self {
        Self { local: MemoryStore::default(), clock: Clock::system(), counters, at_capacity }
    }

    /// The choice that applies to this trouble, given the `choice` for outages.
    fn choice(&self, trouble: &Error, choice: OnStoreFailure) -> OnStoreFailure {
        match (trouble, choice, self.at_capacity) {
            (Error::NoRoom, _, AtCapacity::Admit) => OnStoreFailure::Open,
            (Error::NoRoom, ..) | (Error::Overloaded, OnStoreFailure::Open, _) => OnStoreFailure::Closed,
            (trouble, OnStoreFailure::Open, _) if !trouble.is_outage() => OnStoreFailure::Local(Share::ALL),
            _ => choice,
        }
    }

    #[inline]
    pub(crate) fn decide(
        &self,
        trouble: &Error,
        op: Op,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        choice: OnStoreFailure,
    ) -> Decision {
        let choice = self.choice(trouble, choice);
        self.count(trouble, choice);
        self.answer(op, policy, key, cost, choice)
    }

    #[inline]
    fn count(&self, trouble: &Error, choice: OnStoreFailure) {
        self.counters.trouble(trouble);
        count(match choice {
            OnStoreFailure::Open => &self.counters.degraded_open,
            OnStoreFailure::Closed => &self.counters.degraded_closed,
            OnStoreFailure::Local(_) => &self.counters.degraded_local,
        });
    }

    #[inline]
    fn answer(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost, choice: OnStoreFailure) -> Decision {
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

    /// Whether a choice lets a request through that Redis does not answer; nothing is charged or counted.
    pub(crate) fn admits(&self, trouble: &Error, spend: &Spend<'_>, choice: OnStoreFailure) -> bool {
        let choice = self.choice(trouble, choice);
        self.answer(Op::Peek, spend.policy, spend.key, spend.cost, choice).is_allowed()
    }

    /// Denies a request by a remembered denial.
    pub(crate) fn remembered(&self, trouble: &Error, denial: Decision) -> Decision {
        self.counters.trouble(trouble);
        count(&self.counters.remembered);
        denial
    }

    /// Decides all spends as one. If one of them is denied, by its choice or by a remembered denial, none is charged.
    pub(crate) fn decide_all(
        &self,
        trouble: &Error,
        op: Op,
        spends: &[Spend<'_>],
        on_failure: Option<OnStoreFailure>,
        denial: impl Fn(&Spend<'_>) -> Option<Decision>,
    ) -> Vec<Decision> {
        let choice = |spend: &Spend<'_>| self.choice(trouble, on_failure.unwrap_or(spend.policy.on_store_failure()));
        let denials: Vec<Option<Decision>> = spends.iter().map(denial).collect();
        for (spend, denial) in spends.iter().zip(&denials) {
            match denial {
                Some(denial) => drop(self.remembered(trouble, *denial)),
                None => self.count(trouble, choice(spend)),
            }
        }
        let decide = |op, (spend, denial): (&Spend<'_>, &Option<Decision>)| {
            denial.unwrap_or_else(|| self.answer(op, spend.policy, spend.key, spend.cost, choice(spend)))
        };
        if op == Op::Check {
            // Others may charge between the look and the charge: what is admitted here is this node's estimate in any case.
            let looked: Vec<Decision> = spends.iter().zip(&denials).map(|each| decide(Op::Peek, each)).collect();
            if looked.iter().any(|decision| !matches!(decision.reason(), Reason::Allowed | Reason::Shadow)) {
                return looked;
            }
        }
        spends.iter().zip(&denials).map(|each| decide(op, each)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate::{AtCapacity, Cost, Key, OnStoreFailure, Op, Policy, Reason};

    use super::Fallback;
    use crate::{error::Error, stats::Counters};

    #[test]
    fn open_admits_no_more_than_the_limit_while_redis_answers_and_everything_in_an_outage() {
        let fallback = Fallback::new(Arc::new(Counters::default()), AtCapacity::Shared);
        let policy = Policy::new("p", ["5/1h".parse().expect("a limit")]).expect("a policy");
        let key = Key::new("k").expect("a key");
        let decide = |trouble| fallback.decide(&trouble, Op::Check, &policy, &key, Cost::ONE, OnStoreFailure::Open);
        let answered = [Error::Timeout, Error::Late, Error::TooSlow, Error::OutOfMemory, Error::NoReplicas];
        let late: Vec<_> = (0..10).flat_map(|_| answered.clone().map(decide)).collect();
        assert!(late.iter().all(tidegate::Decision::is_degraded));
        assert!(late[..5].iter().all(|decision| decision.reason() == Reason::Allowed), "{late:?}");
        assert!(late[5..].iter().all(|decision| decision.reason() == Reason::Limited), "{late:?}");
        assert!((0..10).all(|_| decide(Error::Unreachable).is_allowed()), "an outage is known");
        assert!((0..10).all(|_| !decide(Error::Overloaded).is_allowed()), "overload is not an outage");
    }
}
