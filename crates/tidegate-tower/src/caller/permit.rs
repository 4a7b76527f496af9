//! [`Permit`]: the call may be made now.

use http::{HeaderMap, StatusCode};
use tidegate::{Cost, Decision, Key, Policy, Store, StoreError, Timestamp};

use super::budget::Budget;
use crate::rule::units_of;

/// A call that may be made now, and has been paid for.
///
/// To drop it is to have made the call at the cost that was asked for. A call that cost something else is
/// [settled](Self::settle), one that was not made is [refunded](Self::refund).
#[derive(Debug)]
#[must_use = "the call has been paid for: make it, or give it back"]
pub struct Permit<S> {
    pub(crate) budget: Budget<S>,
    pub(crate) key: Key<'static>,
    pub(crate) held: Vec<Held>,
    pub(crate) decision: Decision,
}

/// What was charged under one policy.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) policy: Policy,
    pub(crate) cost: Cost,
    /// `None` if nothing was: the store failed and the choice for that case is to go ahead, or the policy only watches and would have denied it.
    pub(crate) at: Option<Timestamp>,
    /// Whether the store that others share was away: what was charged, if anything, was charged in this process.
    pub(crate) is_degraded: bool,
}

/// Why a permit could not be settled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// There is not one cost for each policy.
    #[error("{given} costs for {policies} policies: give one for each, in order")]
    Costs {
        /// How many costs there are.
        given: usize,
        /// How many policies.
        policies: usize,
    },
    /// The store did not give units back; whether it has is not known.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<S: Store + Clone + 'static> Permit<S> {
    /// What was decided. It is degraded if the store failed and the choice for that case was to go ahead.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Who it is for.
    pub fn key(&self) -> &Key<'static> {
        &self.key
    }

    /// Minds what the server says: if it asks to wait, the key is paused, for everyone who shares the budget. Returns how
    /// long.
    pub async fn obey(&self, status: StatusCode, headers: &HeaderMap) -> Option<std::time::Duration> {
        self.budget.obey(&self.key, status, headers).await
    }

    /// The call has cost `units` of every policy: charges what is missing, even past the limit, and gives back what is too much to the
    /// moment it was charged at.
    ///
    /// # Errors
    /// If the store does not give units back; it is not tried again.
    pub async fn settle(self, units: u64) -> Result<(), SettleError> {
        let costs = vec![units; self.held.len()];
        self.settle_each(&costs).await
    }

    /// The call has cost so much of each policy, in the order that the budget has them.
    ///
    /// # Errors
    /// If there is not one cost for each policy, or if the store does not give units back; it is not tried again.
    pub async fn settle_each(self, costs: &[u64]) -> Result<(), SettleError> {
        if costs.len() != self.held.len() {
            return Err(SettleError::Costs { given: costs.len(), policies: self.held.len() });
        }
        let mut outcome = Ok(());
        for (held, units) in self.held.iter().zip(costs) {
            let settled = self.settle_one(held, *units).await;
            outcome = outcome.and(settled);
        }
        if self.held.iter().zip(costs).any(|(held, units)| *units < held.cost.get()) {
            self.budget.freed(&self.key);
        }
        Ok(outcome?)
    }

    /// The call was not made: gives everything back.
    ///
    /// # Errors
    /// If the store does not give units back; it is not tried again.
    pub async fn refund(self) -> Result<(), SettleError> {
        self.settle(0).await
    }

    async fn settle_one(&self, held: &Held, units: u64) -> Result<(), StoreError> {
        let (store, charged) = (self.budget.store(), held.cost.get());
        let cost = |units: u64| (units > 0).then(|| units_of(units));
        match (held.at, cost(units.saturating_sub(charged)), cost(charged.saturating_sub(units))) {
            (Some(_), Some(more), _) => {
                let _ = store.charge(&held.policy, &self.key, more).await;
                Ok(())
            }
            (Some(at), None, Some(less)) if !held.is_degraded => {
                store.refund(&held.policy, &self.key, less, at).await.map(|_| ())
            }
            // Nothing was charged while the store was away; what it cost is now known, and is.
            (None, ..) if held.is_degraded => {
                if let Some(all) = cost(units) {
                    let _ = store.charge(&held.policy, &self.key, all).await;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
