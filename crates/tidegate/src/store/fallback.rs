//! [`Fallback`]: answers while a store gives none.
//!
//! `open` admits uncounted, `closed` denies, and `local` decides in this process's memory by a share of the limits.
//! Units that were spent locally stay in use until their windows have passed, so a connection that comes and goes
//! refills nothing.

use crate::{Clock, Cost, Decision, Key, MemoryStore, OnStoreFailure, Op, Policy, Share, Spend, external_store};

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

    /// Decides several distinct requests as one, each by the choice of its policy. If one is denied, none is charged.
    pub(crate) fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Vec<Decision> {
        let decide = |op| {
            let decide_one = |spend: &Spend<'_>| {
                self.decide(op, spend.policy, spend.key, spend.cost, spend.policy.on_store_failure())
            };
            spends.iter().map(decide_one).collect::<Vec<_>>()
        };
        if op == Op::Check {
            // Others may charge between the peek and the charge. A local decision is an estimate in any case.
            let peeked = decide(Op::Peek);
            if !peeked.iter().all(Decision::is_allowed) {
                return peeked;
            }
        }
        decide(op)
    }
}
