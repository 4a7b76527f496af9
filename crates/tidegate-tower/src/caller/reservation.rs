//! Charging several policies at once for a caller, so that a caller who gives up leaves nothing charged.

use tidegate::{Cost, Decisions, FailSafe, Key, Op, Policy, Spend, SpendError, Store};
use tokio::runtime::Handle;

/// One policy that a call is charged under.
#[derive(Debug, Clone)]
pub(crate) struct Charge {
    pub(crate) policy: Policy,
    pub(crate) key: Key<'static>,
    pub(crate) cost: Cost,
}

impl Charge {
    pub(crate) fn spends(charges: &[Self]) -> Vec<Spend<'_>> {
        charges.iter().map(|Self { policy, key, cost }| Spend { policy, key, cost: *cost }).collect()
    }
}

/// Why nothing was decided.
#[derive(Debug)]
pub(crate) enum ReserveError {
    /// The charges can't be one decision.
    Malformed(SpendError),
    /// The runtime is shutting down.
    Shutdown,
}

/// Makes all charges if all fit. If the future is dropped before it is ready, nothing stays charged.
pub(crate) async fn reserve<S>(store: &FailSafe<S>, charges: Vec<Charge>) -> Result<Decisions, ReserveError>
where
    S: Store + Clone + 'static,
{
    if let Some(decided) = store.decide_all_now(Op::Check, &Charge::spends(&charges)) {
        return decided.map_err(ReserveError::Malformed);
    }
    // A task of its own ends whether or not the caller still waits. It gives back what was charged for nobody.
    let store = store.clone();
    let decided = tokio::spawn(async move {
        let decisions = store.decide_all(Op::Check, &Charge::spends(&charges)).await?;
        Ok(Unclaimed { store, charges, decisions: Some(decisions), runtime: Handle::current() })
    });
    match decided.await {
        Ok(Ok(mut unclaimed)) => unclaimed.decisions.take().ok_or(ReserveError::Shutdown),
        Ok(Err(malformed)) => Err(ReserveError::Malformed(malformed)),
        Err(_) => Err(ReserveError::Shutdown),
    }
}

/// Decisions that no caller has taken yet. If it is dropped with them, the charges are given back.
struct Unclaimed<S: Store + Clone + 'static> {
    store: FailSafe<S>,
    charges: Vec<Charge>,
    decisions: Option<Decisions>,
    runtime: Handle,
}

impl<S: Store + Clone + 'static> Drop for Unclaimed<S> {
    fn drop(&mut self) {
        let Some(decisions) = self.decisions.take() else { return };
        let (store, charges) = (self.store.clone(), std::mem::take(&mut self.charges));
        self.runtime.spawn(async move {
            // A degraded decision was charged in this process, if at all, so the store has nothing to give back.
            let in_store = charges.iter().zip(&decisions.parts).filter(|(_, decision)| !decision.is_degraded());
            for (Charge { policy, key, cost }, decision) in in_store {
                if let Some(at) = decision.charged_at()
                    && let Err(error) = store.store().refund(policy, key, *cost, at).await
                {
                    tracing::warn!("{} units of a cancelled call were not given back: {error}", cost.get());
                }
            }
        });
    }
}
