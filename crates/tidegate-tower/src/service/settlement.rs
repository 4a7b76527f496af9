//! Corrects charges by the response: gives units back, or charges more.

use std::{mem, sync::Arc};

use http::Response;
use tidegate::{Decision, Op, Store, now_or_never};
use tokio::runtime::Handle;

use super::{Shared, future::BoxFuture};
use crate::{
    decision::{Correction, PendingCharge, ResponseUpdate},
    head::ResponseHead,
    response::body::{ByteCounter, ResponseBody},
};

/// Charges, and how to correct each of them.
pub(super) type Corrections = Vec<(PendingCharge, Correction)>;

/// The corrections that a response requires. A response of unknown size gets a body that counts its bytes and corrects
/// the charge when it has been sent.
pub(super) fn corrections<R, E, S>(
    shared: &Arc<Shared<S>>,
    update: &mut ResponseUpdate,
    mut outcome: Result<Response<R>, E>,
) -> (Result<Response<R>, E>, Corrections)
where
    R: ResponseBody,
    S: Store + Clone + 'static,
{
    let mut corrections = Vec::new();
    for charge in mem::take(&mut update.charges) {
        let correction = match &outcome {
            Ok(response) => charge.correction(&shared.limits, &ResponseHead::new(response)),
            Err(_) => shared.limits.refund_if.as_ref().map(|_| Correction::Refund(charge.spend.cost)),
        };
        match correction {
            None => {}
            Some(Correction::CountBytes(unit)) => {
                let counter = byte_counter(Arc::clone(shared), charge, unit);
                outcome = outcome.map(|response| response.map(|body| body.with_counter(counter)));
            }
            Some(correction) => corrections.push((charge, correction)),
        }
    }
    (outcome, corrections)
}

/// Carries out corrections: at once if the store is immediate, otherwise by the returned future.
pub(super) fn start<S: Store + Clone + 'static>(
    shared: &Arc<Shared<S>>,
    update: ResponseUpdate,
    corrections: Corrections,
) -> Result<ResponseUpdate, BoxFuture<ResponseUpdate>> {
    if corrections.is_empty() {
        return Ok(update);
    }
    let settling = settle(Arc::clone(shared), update, corrections);
    if shared.store.store().is_immediate() {
        return Ok(now_or_never(settling).unwrap_or_default());
    }
    Err(Box::pin(settling))
}

async fn settle<S: Store + Clone + 'static>(
    shared: Arc<Shared<S>>,
    mut update: ResponseUpdate,
    corrections: Corrections,
) -> ResponseUpdate {
    for (charge, correction) in corrections {
        if let Some(charged) = correct(&shared, &charge, correction).await {
            shared.limits.report_charge(&mut update, charge.spend.policy, &charged);
        }
    }
    update
}

/// Corrects a charge when the body has been sent. Dropping a body can't wait, so a separate task calls a store that is
/// not immediate.
fn byte_counter<S: Store + Clone + 'static>(shared: Arc<Shared<S>>, charge: PendingCharge, unit: u64) -> ByteCounter {
    let runtime = if shared.store.store().is_immediate() { None } else { Some(Handle::current()) };
    ByteCounter::new(move |bytes| {
        let Some(correction) = charge.correction_to(bytes.div_ceil(unit)) else { return };
        let correct = async move { correct(&shared, &charge, correction).await };
        match runtime {
            None => drop(now_or_never(correct)),
            Some(runtime) => drop(runtime.spawn(correct)),
        }
    })
}

/// Corrects a charge. Returns the decision if more was charged.
async fn correct<S: Store>(shared: &Shared<S>, charge: &PendingCharge, correction: Correction) -> Option<Decision> {
    let Shared { limits, store } = shared;
    let (policy, key) = (&limits.tier(charge.spend.policy).policy, &charge.spend.key);
    match correction {
        // The store failed, and this process was charged. The store has nothing to give back.
        Correction::Refund(_) if charge.is_degraded && store.store().is_shared() => None,
        Correction::Refund(cost) => {
            if let Err(error) = store.store().refund(policy, key, cost, charge.at).await {
                tracing::warn!("the store did not refund {} units: {error}", cost.get());
            }
            None
        }
        Correction::Charge(cost) => Some(store.decide(Op::Charge, policy, key, cost).await),
        Correction::CountBytes(_) => None,
    }
}
