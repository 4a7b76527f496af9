//! [`Fallback`]: the answers while Redis gives none.
//!
//! `open` lets through, `closed` denies, `local` decides in this process's memory by a share of the limits. What was spent
//! locally is kept until its windows have passed, so a link that comes and goes refills nothing.

use std::sync::Arc;

use tidegate::{Clock, Cost, Decision, Key, MemoryStore, OnStoreFailure, Op, Policy, Reason, Spend, remote};

use crate::{
    stats::{Counters, count},
    trouble::Trouble,
};

#[derive(Debug)]
pub(crate) struct Fallback {
    local: MemoryStore,
    clock: Clock,
    counters: Arc<Counters>,
}

impl Fallback {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self { local: MemoryStore::default(), clock: Clock::system(), counters }
    }

    #[inline]
    pub(crate) fn decide(
        &self,
        trouble: &Trouble,
        op: Op,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        choice: OnStoreFailure,
    ) -> Decision {
        self.count(trouble, choice);
        self.answer(op, policy, key, cost, choice)
    }

    #[inline]
    fn count(&self, trouble: &Trouble, choice: OnStoreFailure) {
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
            OnStoreFailure::Open => remote::without_store(policy, true),
            OnStoreFailure::Closed => remote::without_store(policy, false),
            OnStoreFailure::Local(share) => {
                let now = self.clock.now();
                let decision = match policy.local() {
                    Some(local) if policy.on_store_failure() == choice => self.local.decide(op, local, key, cost, now),
                    _ => self.local.decide(op, &policy.share(share), key, cost, now),
                };
                remote::degraded(decision)
            }
        }
    }

    /// Whether a choice lets a request through that Redis does not answer; nothing is charged or counted.
    pub(crate) fn admits(&self, spend: &Spend<'_>, choice: OnStoreFailure) -> bool {
        self.answer(Op::Peek, spend.policy, spend.key, spend.cost, choice).is_allowed()
    }

    /// Decides all as one: what one choice denies is charged to none of the others.
    pub(crate) fn decide_all(
        &self,
        trouble: &Trouble,
        op: Op,
        spends: &[Spend<'_>],
        on_failure: Option<OnStoreFailure>,
    ) -> Vec<Decision> {
        let choice = |spend: &Spend<'_>| on_failure.unwrap_or(spend.policy.on_store_failure());
        for spend in spends {
            self.count(trouble, choice(spend));
        }
        let decide = |op, spend: &Spend<'_>| self.answer(op, spend.policy, spend.key, spend.cost, choice(spend));
        if op == Op::Check {
            // Others may charge between the look and the charge: what is admitted here is this node's estimate in any case.
            let looked: Vec<Decision> = spends.iter().map(|spend| decide(Op::Peek, spend)).collect();
            if looked.iter().any(|decision| !matches!(decision.reason(), Reason::Allowed | Reason::Shadow)) {
                return looked;
            }
        }
        spends.iter().map(|spend| decide(op, spend)).collect()
    }
}
