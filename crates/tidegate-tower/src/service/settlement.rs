//! Corrects charges by the response: gives units back, or charges more.

use std::{future::Future, mem, pin::Pin, sync::Arc};

use http::Response;
use tidegate::{Decision, Op, Store, now_or_never};
use tokio::runtime::Handle;

use super::Shared;
use crate::{
    answer::body::{AnswerBody, Count},
    incoming::Outgoing,
    ticket::{Charge, Correction, Ticket},
};

/// Charges, and how to correct each of them.
pub(super) type Corrections = Vec<(Charge, Correction)>;

/// The corrections that a response asks for. A response whose size is not known yet gets a body that counts its bytes
/// and corrects the charge when it has been sent.
pub(super) fn corrections<R, E, S>(
    shared: &Arc<Shared<S>>,
    ticket: &mut Ticket,
    outcome: Result<Response<R>, E>,
) -> (Result<Response<R>, E>, Corrections)
where
    R: AnswerBody,
    S: Store + Clone + 'static,
{
    let (gate, charges) = (&shared.gate, mem::take(&mut ticket.charges));
    let mut response = match outcome {
        Ok(response) => response,
        Err(error) => {
            let charges = if gate.refund_if.is_some() { charges } else { Vec::new() };
            let refund = |charge: Charge| {
                let refund = Correction::Refund(charge.cost);
                (charge, refund)
            };
            return (Err(error), charges.into_iter().map(refund).collect());
        }
    };
    let mut corrections = Vec::new();
    for charge in charges {
        match charge.correction(gate, &Outgoing::of(&response)) {
            None => {}
            Some(Correction::CountBytes(unit)) => {
                let count = count(Arc::clone(shared), charge, unit);
                response = response.map(|body| body.counted(count));
            }
            Some(correction) => corrections.push((charge, correction)),
        }
    }
    (Ok(response), corrections)
}

/// Carries corrections out: at once if the store is immediate, or else by the future that is returned.
pub(super) fn start<S: Store + Clone + 'static>(
    shared: &Arc<Shared<S>>,
    ticket: Ticket,
    corrections: Corrections,
) -> Result<Ticket, Pin<Box<dyn Future<Output = Ticket> + Send>>> {
    if corrections.is_empty() {
        return Ok(ticket);
    }
    let settling = settle(Arc::clone(shared), ticket, corrections);
    if shared.store.store().is_immediate() {
        return Ok(now_or_never(settling).unwrap_or_default());
    }
    Err(Box::pin(settling))
}

async fn settle<S: Store + Clone + 'static>(
    shared: Arc<Shared<S>>,
    mut ticket: Ticket,
    corrections: Corrections,
) -> Ticket {
    for (charge, correction) in corrections {
        if let Some(charged) = correct(&shared, &charge, correction).await {
            shared.gate.charged_more(&mut ticket, charge.place, &charged);
        }
    }
    ticket
}

/// Corrects a charge when the body has been sent. A body that is dropped can't wait, so a store that is not immediate is
/// asked by a task of its own.
fn count<S: Store + Clone + 'static>(shared: Arc<Shared<S>>, charge: Charge, unit: u64) -> Count {
    let runtime = if shared.store.store().is_immediate() { None } else { Some(Handle::current()) };
    Count::new(move |bytes| {
        let Some(correction) = charge.to(bytes.div_ceil(unit)) else { return };
        let correct = async move { correct(&shared, &charge, correction).await };
        match runtime {
            None => drop(now_or_never(correct)),
            Some(runtime) => drop(runtime.spawn(correct)),
        }
    })
}

/// Corrects a charge. Returns the decision if more was charged.
async fn correct<S: Store>(shared: &Shared<S>, charge: &Charge, correction: Correction) -> Option<Decision> {
    let Shared { gate, store } = shared;
    let (policy, key) = (&gate.tier(charge.place).policy, &charge.key);
    match correction {
        // The store was not available, and this process was charged. The store has nothing to give back.
        Correction::Refund(_) if charge.is_degraded && store.store().is_shared() => None,
        Correction::Refund(cost) => {
            if let Err(error) = store.store().refund(policy, key, cost, charge.at).await {
                tracing::warn!("{} units were not given back: {error}", cost.get());
            }
            None
        }
        Correction::Charge(cost) => Some(store.decide(Op::Charge, policy, key, cost).await),
        Correction::CountBytes(_) => None,
    }
}
