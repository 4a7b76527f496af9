//! Settles a request by its response: commits its hold, or corrects its charges.
//!
//! The final cost of each rule comes from the response (`final_cost`), in the same way for a hold and for a charge. A hold
//! is committed with the final costs of all rules at once. A charge is corrected by itself: units are given back, or more
//! are charged.

use std::sync::Arc;

use http::Response;
use tidegate::{Decision, Op, Store, now_or_never};
use tokio::runtime::Handle;

use super::Shared;
use crate::{
    decision::{PendingCharge, ResponseUpdate, Settling},
    final_cost::FinalCost,
    head::ResponseHead,
    hold::{BoxFuture, keep::SharedHold},
    response::{body::ResponseBody, counter::ByteCounter},
    rule::clamped_cost,
};

/// The update of a response, at once if it is known.
pub(super) type Settled = Result<ResponseUpdate, BoxFuture<ResponseUpdate>>;

/// Settles a request by the outcome of its service. If a part of it is settled when the body has been sent, the response
/// gets a body that does so.
pub(super) fn settle<R, E, S>(
    shared: &Arc<Shared<S>>,
    settling: Settling,
    update: ResponseUpdate,
    outcome: Result<Response<R>, E>,
) -> (Result<Response<R>, E>, Settled)
where
    R: ResponseBody,
    S: Store + Clone + 'static,
{
    match settling {
        Settling::Charges(charges) => correct_charges(shared, charges, update, outcome),
        Settling::Hold(hold) => commit_hold(shared, hold, update, outcome),
    }
}

fn commit_hold<R, E, S>(
    shared: &Arc<Shared<S>>,
    hold: SharedHold,
    mut update: ResponseUpdate,
    outcome: Result<Response<R>, E>,
) -> (Result<Response<R>, E>, Settled)
where
    R: ResponseBody,
    S: Store + Clone + 'static,
{
    let limits = &shared.limits;
    let (policies, is_in_flight) = hold.with(|hold| (hold.policies().collect::<Box<[_]>>(), hold.is_in_flight()));
    let costs: Vec<FinalCost> = match &outcome {
        Ok(response) => {
            let response = ResponseHead::new(response);
            policies.iter().map(|policy| FinalCost::of_response(limits, *policy, &response)).collect()
        }
        Err(_) => policies.iter().map(|_| FinalCost::of_error(limits)).collect(),
    };
    let is_late = is_in_flight || costs.iter().any(FinalCost::is_late);
    hold.with(|hold| hold.settle(costs));
    let outcome = match outcome {
        Ok(response) if is_late => {
            let counter = ByteCounter::new(move |bytes| {
                hold.with(|hold| hold.set_bytes(bytes));
                drop(hold);
            });
            return (Ok(response.map(|body| body.with_counter(counter))), Ok(update));
        }
        outcome => outcome,
    };
    // If the service keeps the hold, it is committed later.
    let Some(hold) = hold.into_inner() else { return (outcome, Ok(update)) };
    let shared = Arc::clone(shared);
    let is_immediate = shared.store.store().is_immediate();
    let commit = hold.commit();
    let settled = async move {
        if let Some(settled) = commit.await {
            shared.limits.report_settled(&mut update, &policies, &settled.decision);
        }
        update
    };
    let settled: BoxFuture<ResponseUpdate> = Box::pin(settled);
    (outcome, if is_immediate { Ok(now_or_never(settled).unwrap_or_default()) } else { Err(settled) })
}

fn correct_charges<R, E, S>(
    shared: &Arc<Shared<S>>,
    charges: Vec<PendingCharge>,
    update: ResponseUpdate,
    mut outcome: Result<Response<R>, E>,
) -> (Result<Response<R>, E>, Settled)
where
    R: ResponseBody,
    S: Store + Clone + 'static,
{
    let mut corrections = Vec::new();
    for charge in charges {
        let cost = match &outcome {
            Ok(response) => FinalCost::of_response(&shared.limits, charge.spend.policy, &ResponseHead::new(response)),
            Err(_) => FinalCost::of_error(&shared.limits),
        };
        if cost.is_late() {
            let counter = late_correction(Arc::clone(shared), charge, cost);
            outcome = outcome.map(|response| response.map(|body| body.with_counter(counter)));
        } else if let Some(units) = cost.units(0) {
            corrections.push((charge, units));
        }
    }
    if corrections.is_empty() {
        return (outcome, Ok(update));
    }
    let correcting = correct_all(Arc::clone(shared), update, corrections);
    let settled = if shared.store.store().is_immediate() {
        Ok(now_or_never(correcting).unwrap_or_default())
    } else {
        Err(Box::pin(correcting) as BoxFuture<_>)
    };
    (outcome, settled)
}

async fn correct_all<S: Store + Clone + 'static>(
    shared: Arc<Shared<S>>,
    mut update: ResponseUpdate,
    corrections: Vec<(PendingCharge, u64)>,
) -> ResponseUpdate {
    for (charge, units) in corrections {
        if let Some(charged) = correct(&shared, &charge, units).await {
            shared.limits.report_charge(&mut update, charge.spend.policy, &charged);
        }
    }
    update
}

/// Corrects a charge when the body has been sent. Dropping a body can't wait, so a separate task calls a store that is
/// not immediate.
fn late_correction<S: Store + Clone + 'static>(
    shared: Arc<Shared<S>>,
    charge: PendingCharge,
    cost: FinalCost,
) -> ByteCounter {
    let runtime = if shared.store.store().is_immediate() { None } else { Some(Handle::current()) };
    ByteCounter::new(move |bytes| {
        let Some(units) = cost.units(bytes) else { return };
        let correct = async move { correct(&shared, &charge, units).await };
        match runtime {
            None => drop(now_or_never(correct)),
            Some(runtime) => drop(runtime.spawn(correct)),
        }
    })
}

/// Makes the cost of a charge `units`. Returns the decision if more was charged.
async fn correct<S: Store>(shared: &Shared<S>, charge: &PendingCharge, units: u64) -> Option<Decision> {
    let Shared { limits, store, .. } = shared;
    let (policy, key) = (&limits.tier(charge.spend.policy).policy, &charge.spend.key);
    let charged = charge.spend.cost.get();
    if units > charged {
        return Some(store.decide(Op::Charge, policy, key, clamped_cost(units - charged)).await);
    }
    // If the store failed, this process was charged. The store has nothing to give back.
    if units < charged && !(charge.is_degraded && store.store().is_shared()) {
        let cost = clamped_cost(charged - units);
        if let Err(error) = store.store().refund(policy, key, cost, charge.at).await {
            tracing::warn!("the store did not refund {} units: {error}", cost.get());
        }
    }
    None
}
