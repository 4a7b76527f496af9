//! Kuadrant's rate limit service: check and report, and reservations.
//!
//! The rules for Envoy's descriptors apply. All descriptors of a reserve are one hold. A commit of a hold that is not open
//! charges the amount to the descriptors of the commit, as the protocol says, so a commit must not be sent twice.

use std::time::Duration;

use tidegate::{Hold, Op, ReservationBounds};
use tonic::{Request, Response, Status};

use super::{
    proto::{
        Code, CommitRequest, CommitResponse, RateLimitDescriptor, RateLimitRequest, RateLimitResponse, ReserveRequest,
        ReserveResponse,
    },
    ratelimit::{decide, refusal_status},
    request::{self, Action, MAX_HITS},
};
use crate::{
    context::Context,
    metrics::Transport,
    service::{ActivePolicies, KeyRequest, LimitSource, Refusal, ReservationChange, Service},
};

const SHORTEST_TTL: Duration = Duration::from_millis(1);

/// Answers whether the hits fit, and spends nothing.
pub(super) async fn check_rate_limit(
    context: &Context,
    request: Request<RateLimitRequest>,
) -> Result<Response<RateLimitResponse>, Status> {
    decide_by(context, Op::Peek, request.get_ref()).await
}

/// Spends the hits, even beyond the limit.
pub(super) async fn report(
    context: &Context,
    request: Request<RateLimitRequest>,
) -> Result<Response<RateLimitResponse>, Status> {
    decide_by(context, Op::Charge, request.get_ref()).await
}

async fn decide_by(
    context: &Context,
    op: Op,
    request: &RateLimitRequest,
) -> Result<Response<RateLimitResponse>, Status> {
    if request.descriptors.iter().any(|descriptor| descriptor.is_negative_hits) {
        return Err(Status::invalid_argument("negative hits are not supported here: use ShouldRateLimit of Envoy"));
    }
    let active = context.service.active_policies();
    let actions = request::parse(&active.policies, request)?;
    let decided = decide(&context.service, &active, op, &actions).await;
    Ok(Response::new(decided.map_err(|refusal| refusal_status(&refusal))?))
}

/// Reserves the amount under each descriptor, all or nothing.
pub(super) async fn reserve(
    context: &Context,
    request: Request<ReserveRequest>,
) -> Result<Response<ReserveResponse>, Status> {
    let ReserveRequest { domain, descriptors, amount, ttl } = request.into_inner();
    let ttl = ttl.map(Duration::try_from).transpose();
    let ttl = ttl
        .map_err(|_| Status::invalid_argument("the ttl is negative or out of range: use a duration of 1ms or more"))?;
    let request = with_amount(domain, descriptors, amount);
    let (service, active) = (&context.service, context.service.active_policies());
    let actions = request::parse(&active.policies, &request)?;
    let requests = spending(&actions);
    let is_denied = actions.iter().any(|action| matches!(action, Action::Deny(_)));
    let response = if is_denied || requests.is_empty() {
        // There is nothing to hold.
        let decided = decide(service, &active, Op::Peek, &actions).await.map_err(|refusal| refusal_status(&refusal))?;
        ReserveResponse { code: decided.overall_code, reservation_id: String::new() }
    } else {
        let hold = Hold::new(bounded_ttl(&active, &requests, ttl));
        hold_all(service, &active, &requests, hold).await.map_err(|refusal| refusal_status(&refusal))?
    };
    Ok(Response::new(response))
}

/// Closes a hold with the actual amount. If it is not open, spends the amount under the descriptors.
pub(super) async fn commit(
    context: &Context,
    request: Request<CommitRequest>,
) -> Result<Response<CommitResponse>, Status> {
    let CommitRequest { domain, descriptors, reservation_id, actual_amount } = request.into_inner();
    let amount = actual_amount.min(MAX_HITS);
    let request = with_amount(domain, descriptors, amount);
    let (service, active) = (&context.service, context.service.active_policies());
    let actions = request::parse(&active.policies, &request)?;
    let reservation_released = !reservation_id.is_empty()
        && match service.change_reservation(&active, &reservation_id, ReservationChange::Commit(&[amount])).await {
            Ok(changed) => changed.settled.known,
            // An id that is malformed or of a removed policy is not that of an open hold.
            Err(Refusal::Reservation(_)) => false,
            Err(refusal) => return Err(refusal_status(&refusal)),
        };
    if !reservation_released && amount > 0 {
        let charged: Vec<Action<'_>> = actions.into_iter().filter(|action| can_be_charged(&active, action)).collect();
        decide(service, &active, Op::Charge, &charged).await.map_err(|refusal| refusal_status(&refusal))?;
    }
    Ok(Response::new(CommitResponse { reservation_released }))
}

/// Returns the request of Envoy with this amount for each descriptor.
fn with_amount(domain: String, descriptors: Vec<RateLimitDescriptor>, amount: u64) -> RateLimitRequest {
    let each = |descriptor| RateLimitDescriptor { hits_addend: Some(amount), is_negative_hits: false, ..descriptor };
    RateLimitRequest { domain, descriptors: descriptors.into_iter().map(each).collect(), hits_addend: 0 }
}

fn spending<'r>(actions: &[Action<'r>]) -> Vec<KeyRequest<'r>> {
    let spent = actions.iter().filter_map(|action| match action {
        Action::Spend(request) => Some(request.clone()),
        _ => None,
    });
    spent.collect()
}

/// Returns the ttl within the bounds of all policies; the longest if the request has none.
fn bounded_ttl(active: &ActivePolicies, requests: &[KeyRequest<'_>], ttl: Option<Duration>) -> Duration {
    let longest = |request: &KeyRequest<'_>| match &request.source {
        LimitSource::Policy(name) => {
            active.policies.get(name).map(|configured| configured.policy.reservation_bounds().max_hold())
        }
        _ => None,
    };
    let default = ReservationBounds::default().max_hold();
    let longest = requests.iter().map(|request| longest(request).unwrap_or(default)).min().unwrap_or(default);
    ttl.map_or(longest, |ttl| ttl.clamp(SHORTEST_TTL, longest))
}

async fn hold_all(
    service: &Service,
    active: &ActivePolicies,
    requests: &[KeyRequest<'_>],
    hold: Hold,
) -> Result<ReserveResponse, Refusal> {
    let (decision, id) = match requests {
        [request] => {
            let reserved = service.reserve(Transport::Grpc, active, request, hold).await?;
            (reserved.decided.decision, reserved.id)
        }
        requests => {
            let reserved = service.reserve_all(Transport::Grpc, active, requests, hold).await?;
            (reserved.decided.overall, reserved.id)
        }
    };
    let code = if decision.is_allowed() { Code::Ok } else { Code::OverLimit };
    Ok(ReserveResponse { code: code.into(), reservation_id: id.map_or_else(String::new, |id| id.to_string()) })
}

/// Returns whether an action can be charged. A limit on the units in open holds counts nothing afterwards.
fn can_be_charged(active: &ActivePolicies, action: &Action<'_>) -> bool {
    match action {
        Action::Spend(KeyRequest { source: LimitSource::Policy(name), .. }) => {
            active.policies.get(name).is_some_and(|configured| !configured.policy.has_in_flight_limit())
        }
        action => matches!(action, Action::Spend(_)),
    }
}
