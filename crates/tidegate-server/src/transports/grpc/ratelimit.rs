//! The decisions of Envoy's rate limit service.
//!
//! All descriptors of a request that spend are one decision, all or nothing. Before that, every descriptor without hits is
//! checked separately. If one of these checks or a rule denies, nothing is spent. Refunds follow last, whatever the decision:
//! their units were spent for an earlier request.

use futures_util::future::try_join_all;
use tidegate::{Cost, Op, ReservationError};
use tonic::{Request, Response, Status};

use super::{
    guard,
    proto::{Code, DescriptorStatus, RateLimitRequest, RateLimitResponse},
    refund,
    request::{self, Action},
    status,
};
use crate::{
    auth::Access,
    context::Context,
    metrics::Transport,
    service::{ActivePolicies, KeyRequest, PolicyDecision, Price, Refusal, Service},
};

/// Decides a request of a caller that may use the service.
pub(super) async fn should_rate_limit(
    context: &Context,
    request: Request<RateLimitRequest>,
) -> Result<Response<RateLimitResponse>, Status> {
    if request.get_ref().descriptors.iter().any(|descriptor| descriptor.is_negative_hits) {
        guard::authorize(&context.settings.tokens, request.metadata().as_ref(), Access::Admin)?;
    }
    let active = context.service.active_policies();
    let actions = request::parse(&active.policies, request.get_ref())?;
    let decided = decide(&context.service, &active, Op::Check, &actions).await;
    Ok(Response::new(decided.map_err(|refusal| refusal_status(&refusal))?))
}

/// Decides the descriptors of a request. `op` is the operation of those that spend.
pub(super) async fn decide(
    service: &Service,
    active: &ActivePolicies,
    op: Op,
    actions: &[Action<'_>],
) -> Result<RateLimitResponse, Refusal> {
    let peeked = peek(service, active, actions).await?;
    let is_denied = |(action, peeked): (&Action<'_>, &Option<PolicyDecision<'_>>)| {
        matches!(action, Action::Deny(_)) || peeked.as_ref().is_some_and(|answer| !answer.decision.is_allowed())
    };
    let is_denied = op == Op::Check && actions.iter().zip(&peeked).any(is_denied);
    let op = if is_denied { Op::Peek } else { op };
    let mut spent = spend(service, active, op, actions).await?.into_iter();

    let mut statuses = Vec::with_capacity(actions.len());
    for (action, peeked) in actions.iter().zip(peeked) {
        statuses.push(match (action, peeked) {
            (Action::Ignore, _) => status::unmatched(),
            (Action::Unlimited, _) => status::unlimited(),
            (Action::Deny(limit), _) => {
                service.metrics().denied.inc();
                status::denied(*limit)
            }
            (Action::Refund(request), _) => {
                refund::refund_oldest(service, active, request).await;
                let one = KeyRequest { price: Price::Cost(Cost::ONE), ..request.clone() };
                status::refunded(&service.decide(Transport::Grpc, active, Op::Peek, &one).await?)
            }
            (_, Some(peeked)) => status::decided(&peeked),
            (_, None) => spent.next().as_ref().map_or_else(status::unmatched, status::decided),
        });
    }
    let over = |status: &DescriptorStatus| status.code == i32::from(Code::OverLimit);
    let overall = if statuses.iter().any(over) { Code::OverLimit } else { Code::Ok };
    Ok(RateLimitResponse { overall_code: overall.into(), statuses, ..RateLimitResponse::default() })
}

/// Checks the descriptors without hits. The result has `None` for every other descriptor.
async fn peek<'l>(
    service: &Service,
    active: &'l ActivePolicies,
    actions: &[Action<'_>],
) -> Result<Vec<Option<PolicyDecision<'l>>>, Refusal> {
    try_join_all(actions.iter().map(async |action| match action {
        Action::Peek(request) => service.decide(Transport::Grpc, active, Op::Peek, request).await.map(Some),
        _ => Ok(None),
    }))
    .await
}

/// Decides all descriptors that spend, as one decision.
async fn spend<'l>(
    service: &Service,
    active: &'l ActivePolicies,
    op: Op,
    actions: &[Action<'_>],
) -> Result<Vec<PolicyDecision<'l>>, Refusal> {
    let spending = actions.iter().filter_map(|action| match action {
        Action::Spend(request) => Some(request.clone()),
        _ => None,
    });
    match &*spending.collect::<Vec<_>>() {
        [] => Ok(Vec::new()),
        [request] => Ok(vec![service.decide(Transport::Grpc, active, op, request).await?]),
        requests => Ok(service.decide_all(Transport::Grpc, active, op, requests).await?.parts),
    }
}

/// Returns the gRPC status of a request without a decision.
pub(super) fn refusal_status(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::Malformed { message, .. } => Status::invalid_argument(message),
        Refusal::UnknownPolicy { .. } => Status::not_found(refusal.to_string()),
        Refusal::Reservation(ReservationError::Unsupported { .. }) => Status::unimplemented(refusal.to_string()),
        Refusal::Reservation(_) => Status::failed_precondition(refusal.to_string()),
        _ => Status::unavailable(refusal.to_string()),
    }
}
