//! [`HeldCall`]: a call whose units are reserved until its cost is known.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tidegate::{Decision, FailSafe, HoldGuard, Key, Store, StoreError};
use tokio::runtime::Handle;

use super::{budget::Budget, permit::SettleError};

/// A call whose units are reserved until its cost is known.
///
/// [Commit](Self::commit) what the call has spent. If you drop it, all units are given back. If the process dies, the hold
/// ends at its ttl: [renew](Self::renew) it if the call lasts longer.
#[derive(Debug)]
#[must_use = "a call that is dropped gives its units back: commit what it has spent"]
pub struct HeldCall<S: Store + Clone + 'static> {
    budget: Budget<S>,
    key: Key<'static>,
    decision: Decision,
    /// `None` once it is committed.
    guard: Option<HoldGuard<FailSafe<S>>>,
    /// The number of policies of the budget.
    policies: usize,
}

impl<S: Store + Clone + 'static> HeldCall<S> {
    pub(super) fn new(
        budget: Budget<S>,
        key: Key<'static>,
        guard: HoldGuard<FailSafe<S>>,
        decision: Decision,
        policies: usize,
    ) -> Self {
        Self { budget, key, decision, guard: Some(guard), policies }
    }

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
    pub async fn apply_response(&self, status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
        self.budget.apply_response(&self.key, status, headers).await
    }

    /// Sets the end of the hold to `ttl` from now. Returns whether the hold was still open.
    ///
    /// # Errors
    /// If the ttl is out of range or the store fails.
    pub async fn renew(&self, ttl: Duration) -> Result<bool, SettleError> {
        match &self.guard {
            Some(guard) => Ok(guard.renew(ttl).await?.known),
            None => Ok(false),
        }
    }

    /// Ends the call with its final cost under every policy. Unused units are given back to the moment they were charged
    /// at. More units are charged now, even past the limit. Returns whether the hold was still open. If not, nothing is
    /// changed.
    ///
    /// # Errors
    /// If the store fails. Then the hold ends at its ttl.
    pub async fn commit(self, units: u64) -> Result<bool, SettleError> {
        let costs = vec![units; self.policies];
        self.commit_each(&costs).await
    }

    /// Ends the call with its final cost under each policy, in the order of the budget's policies.
    ///
    /// # Errors
    /// If the number of costs is wrong, or if the store fails. Then the hold ends at its ttl.
    pub async fn commit_each(mut self, costs: &[u64]) -> Result<bool, SettleError> {
        let Some(guard) = self.guard.take() else { return Ok(false) };
        if costs.len() != self.policies {
            // The call was made, so its units are not given back.
            guard.leave_open();
            return Err(SettleError::CostCount { given: costs.len(), policies: self.policies });
        }
        let mut costs = costs.to_vec();
        if self.budget.store().is_shared() {
            // The part of the pause.
            costs.push(1);
        }
        let committed = guard.commit_each(&costs).await;
        self.budget.waiting.queue.notify_refund(&self.key);
        Ok(committed?.known)
    }

    /// Ends the call and gives all units back, because it was not made.
    ///
    /// # Errors
    /// If the store fails. Then the hold ends at its ttl.
    pub async fn release(self) -> Result<bool, SettleError> {
        self.commit(0).await
    }
}

impl<S: Store + Clone + 'static> Drop for HeldCall<S> {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        let (key, budget) = (self.key.clone(), self.budget.clone());
        let is_immediate = budget.store().is_immediate();
        // A waiting caller is notified when the units have been given back.
        release_without_waiting(guard, is_immediate, move || budget.waiting.queue.notify_refund(&key));
    }
}

/// Releases a hold in the background, then calls `released`. If the store fails, the hold ends at its ttl.
pub(super) fn release_without_waiting<S: Store + Clone + 'static>(
    guard: HoldGuard<FailSafe<S>>,
    is_immediate: bool,
    released: impl FnOnce() + Send + 'static,
) {
    match Handle::try_current() {
        Ok(runtime) if !is_immediate => {
            drop(runtime.spawn(async move {
                let answer: Result<_, StoreError> = guard.release().await;
                drop(answer);
                released();
            }));
        }
        _ => {
            drop(guard);
            released();
        }
    }
}
