//! [`Permit`]: permission to make one call.

use http::{HeaderMap, StatusCode};
use tidegate::{Cost, Decision, Key, Policy, Store, StoreError, Timestamp};

use super::budget::Budget;
use crate::rule::clamped_cost;

/// Permission to make one call. The budget has been charged for it.
///
/// If you drop it, the charge stays. If the call had a different cost, [settle](Self::settle) it. If the call was not
/// made, [refund](Self::refund) it.
#[derive(Debug)]
#[must_use = "the budget has been charged: make the call, or refund the permit"]
pub struct Permit<S> {
    pub(crate) budget: Budget<S>,
    pub(crate) key: Key<'static>,
    pub(crate) charges: Vec<PolicyCharge>,
    pub(crate) decision: Decision,
}

/// The charge under one policy.
#[derive(Debug)]
pub(crate) struct PolicyCharge {
    pub(crate) policy: Policy,
    pub(crate) cost: Cost,
    /// `None` if nothing was charged: the store failed and the policy is open, or the policy is in shadow mode and would
    /// have denied the call.
    pub(crate) at: Option<Timestamp>,
    /// Whether the shared store failed. Any charge was then made in this process.
    pub(crate) is_degraded: bool,
}

/// Why a permit was not settled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// The number of costs is not the number of policies.
    #[error("{given} costs for {policies} policies: give one for each, in order")]
    CostCount {
        /// The number of costs.
        given: usize,
        /// The number of policies.
        policies: usize,
    },
    /// The store failed. It may or may not have given the units back.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<S: Store + Clone + 'static> Permit<S> {
    /// The decision. It is degraded if the store failed and the policy admits calls in that case.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The key of the call.
    pub fn key(&self) -> &Key<'static> {
        &self.key
    }

    /// Pauses the key, for all callers that share the budget, if the server's response requests a wait. Returns the
    /// wait. See [`Budget::apply_response`].
    pub async fn apply_response(&self, status: StatusCode, headers: &HeaderMap) -> Option<std::time::Duration> {
        self.budget.apply_response(&self.key, status, headers).await
    }

    /// Sets the final cost under every policy. The difference is charged, even past the limit, or given back to the
    /// moment it was charged at.
    ///
    /// # Errors
    /// If the store fails to give units back. There is no second attempt.
    pub async fn settle(self, units: u64) -> Result<(), SettleError> {
        let costs = vec![units; self.charges.len()];
        self.settle_each(&costs).await
    }

    /// Sets the final cost under each policy, in the order of the budget's policies.
    ///
    /// # Errors
    /// If the number of costs is wrong, or if the store fails to give units back. There is no second attempt.
    pub async fn settle_each(self, costs: &[u64]) -> Result<(), SettleError> {
        if costs.len() != self.charges.len() {
            return Err(SettleError::CostCount { given: costs.len(), policies: self.charges.len() });
        }
        let mut outcome = Ok(());
        for (charge, units) in self.charges.iter().zip(costs) {
            let settled = self.settle_one(charge, *units).await;
            outcome = outcome.and(settled);
        }
        if self.charges.iter().zip(costs).any(|(charge, units)| *units < charge.cost.get()) {
            self.budget.waiting.queue.notify_refund(&self.key);
        }
        Ok(outcome?)
    }

    /// Gives all units back, because the call was not made.
    ///
    /// # Errors
    /// If the store fails to give units back. There is no second attempt.
    pub async fn refund(self) -> Result<(), SettleError> {
        self.settle(0).await
    }

    async fn settle_one(&self, charge: &PolicyCharge, units: u64) -> Result<(), StoreError> {
        let (store, PolicyCharge { policy, cost, at, is_degraded }) = (self.budget.store(), charge);
        let charged = match at {
            Some(_) => cost.get(),
            // Nothing was charged because the store failed. Charge the final cost now.
            None if *is_degraded => 0,
            None => return Ok(()),
        };
        if units > charged {
            let _ = store.charge(policy, &self.key, clamped_cost(units - charged)).await;
        } else if let (Some(at), false) = (at, *is_degraded || units == charged) {
            store.refund(policy, &self.key, clamped_cost(charged - units), *at).await?;
        }
        Ok(())
    }
}
