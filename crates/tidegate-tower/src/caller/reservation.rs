//! [`charge`] and [`hold`]: charge or reserve under several policies at once. A caller that stops waiting leaves nothing.

use tidegate::{
    Cost, Decisions, FailSafe, GuardedAll, Hold, HoldGuard, Key, Op, Policy, Spend, Store, StoreError, now_or_never,
};
use tokio::runtime::Handle;

use super::{acquire_error::AcquireError, held_call::release_without_waiting};

/// What a call spends under one policy.
#[derive(Debug, Clone)]
pub(crate) struct OwnedSpend {
    pub(crate) policy: Policy,
    pub(crate) key: Key<'static>,
    pub(crate) cost: Cost,
}

impl OwnedSpend {
    pub(crate) fn borrow_all(spends: &[Self]) -> Vec<Spend<'_>> {
        spends.iter().map(|Self { policy, key, cost }| Spend { policy, key, cost: *cost }).collect()
    }
}

/// Spends all of `spends` if all fit. If the future is dropped before it is ready, the charges are given back.
pub(crate) async fn charge<S>(store: &FailSafe<S>, spends: Vec<OwnedSpend>) -> Result<Decisions, AcquireError>
where
    S: Store + Clone + 'static,
{
    if let Some(decided) = store.decide_all_now(Op::Check, &OwnedSpend::borrow_all(&spends)) {
        return Ok(decided?);
    }
    // A separate task completes even if the caller stops waiting. It then gives the charges back.
    let store = store.clone();
    let decided = tokio::spawn(async move {
        let decided = store.decide_all(Op::Check, &OwnedSpend::borrow_all(&spends)).await;
        decided.map(|decisions| Unclaimed { store, spends, decisions: Some(decisions), runtime: Handle::current() })
    });
    match decided.await {
        Ok(unclaimed) => unclaimed?.decisions.take().ok_or(AcquireError::StoreUnavailable),
        // The runtime is shutting down.
        Err(_) => Err(AcquireError::StoreUnavailable),
    }
}

/// Reserves all of `spends` if all fit. If the future is dropped before it is ready, the hold is released.
pub(crate) async fn hold<S>(
    store: &FailSafe<S>,
    spends: Vec<OwnedSpend>,
    hold: Hold,
) -> Result<(Decisions, Option<HoldGuard<FailSafe<S>>>), AcquireError>
where
    S: Store + Clone + 'static,
{
    let is_immediate = store.store().is_immediate();
    let store = store.clone();
    let reserving = async move {
        let reserved = HoldGuard::reserve_all(store, &OwnedSpend::borrow_all(&spends), hold).await;
        reserved.map(|GuardedAll { decisions, guard, .. }| UnclaimedHold {
            decisions: Some(decisions),
            guard,
            is_immediate,
        })
    };
    let reserved = if is_immediate {
        now_or_never(reserving)
    } else {
        // A separate task completes even if the caller stops waiting. It then releases the hold.
        tokio::spawn(reserving).await.ok()
    };
    match reserved {
        Some(Ok(mut unclaimed)) => {
            let decisions = unclaimed.decisions.take().ok_or(AcquireError::StoreUnavailable)?;
            Ok((decisions, unclaimed.guard.take()))
        }
        Some(Err(StoreError::Reservation(error))) => Err(error.into()),
        // The runtime is shutting down.
        _ => Err(AcquireError::StoreUnavailable),
    }
}

/// A hold that the caller has not taken yet. If it is dropped, it is released.
struct UnclaimedHold<S: Store + Clone + 'static> {
    decisions: Option<Decisions>,
    guard: Option<HoldGuard<FailSafe<S>>>,
    is_immediate: bool,
}

impl<S: Store + Clone + 'static> Drop for UnclaimedHold<S> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            release_without_waiting(guard, self.is_immediate, || {});
        }
    }
}

/// Decisions that the caller has not taken yet. If they are dropped, the charges are given back.
struct Unclaimed<S: Store + Clone + 'static> {
    store: FailSafe<S>,
    spends: Vec<OwnedSpend>,
    decisions: Option<Decisions>,
    runtime: Handle,
}

impl<S: Store + Clone + 'static> Drop for Unclaimed<S> {
    fn drop(&mut self) {
        let Some(decisions) = self.decisions.take() else { return };
        let (store, spends) = (self.store.clone(), std::mem::take(&mut self.spends));
        self.runtime.spawn(async move {
            // A degraded decision was charged in this process, if at all, so the store has nothing to give back.
            let in_store = spends.iter().zip(&decisions.parts).filter(|(_, decision)| !decision.is_degraded());
            for (OwnedSpend { policy, key, cost }, decision) in in_store {
                if let Some(at) = decision.charged_at()
                    && let Err(error) = store.store().refund(policy, key, *cost, at).await
                {
                    tracing::warn!("the store did not refund {} units of a cancelled call: {error}", cost.get());
                }
            }
        });
    }
}
