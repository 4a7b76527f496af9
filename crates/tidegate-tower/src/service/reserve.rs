//! Decides requests that are reserved and not checked.

use std::sync::Arc;

use tidegate::Store;

use super::Shared;
use crate::{
    decision::{PolicySpend, RequestDecision, Settling},
    hold::{LayerHolds, OpenHold, keep::SharedHold},
    key::CountError,
};

/// Reserves a request under all of its policies at once. If the decision is dropped, everything is given back.
pub(super) async fn reserve<S: Store + Clone + 'static>(
    shared: &Arc<Shared<S>>,
    spends: &[PolicySpend<'_>],
) -> Result<RequestDecision, CountError> {
    let Shared { limits, store, .. } = &**shared;
    let settling = |id| match id {
        None => Settling::Charges(Vec::new()),
        Some(id) => {
            let holds = Arc::clone(shared) as Arc<dyn LayerHolds>;
            Settling::Hold(SharedHold::new(OpenHold::new(holds, id, spends)))
        }
    };
    let hold = limits.hold();
    if let [spend] = spends {
        let policy = &limits.tier(spend.policy).policy;
        let reserved = store.reserve(policy, &spend.key, spend.cost, hold).await?;
        return Ok(limits.decided_one(spend, reserved.decision, settling(reserved.id)));
    }
    let reserved = store.reserve_all(&limits.spends(spends), hold).await?;
    Ok(limits.decided_several(spends, &reserved.decisions, settling(reserved.id)))
}

/// Reserves a request in a task of its own. So if the client disconnects while the store decides, the hold is known, and
/// it is given back.
pub(super) async fn reserve_in_task<S: Store + Clone + 'static>(
    shared: Arc<Shared<S>>,
    spends: Vec<PolicySpend<'static>>,
) -> Result<RequestDecision, CountError> {
    let reserving = tokio::spawn(async move { reserve(&shared, &spends).await });
    reserving.await.unwrap_or(Err(CountError::ShuttingDown))
}
