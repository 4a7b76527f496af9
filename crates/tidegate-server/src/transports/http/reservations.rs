//! reserve, commit, release, renew, lease and settle.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request as HttpRequest, State},
    response::Response,
};
use tidegate::Cost;

use super::{
    decide::{deny_status, respond},
    headers,
    problem::Problem,
    request::{DecisionRequest, Request, read},
    reservation_request::{CommitInput, LeaseInput, ReleaseInput, RenewInput, SettleInput},
    unread_body,
};
use crate::{
    auth::Access,
    connections::Reservation,
    context::Context,
    metrics::Transport,
    service::{KeyRequest, LimitSource, Price, ReservationChange},
    transports::{
        decision_body::millis,
        reservation_body::{LeaseBody, ReservationBody, SettledBody},
    },
};

/// Spends the cost if it fits, under an id with which the actual cost is reported later.
#[utoipa::path(
    post, path = "/v1/reserve", tag = "reservations", request_body = super::openapi_reservations::ReserveRequest,
    params(("deny_status" = Option<u16>, Query, minimum = 200, maximum = 200, description = "200 for a denial, too: the body contains the decision")),
    responses(super::openapi::Problems, super::openapi_reservations::ReserveResponses)
)]
pub(super) async fn reserve(State(context): State<Arc<Context>>, request: HttpRequest) -> Result<Response, Problem> {
    let service = &context.service;
    let denied = deny_status(request.uri())?;
    let memory = request.extensions().get::<Arc<Reservation>>().cloned();
    let body = super::body(&context, Access::Usage, request).await?;
    let request = Request::read(&body)?;
    let active = service.active_policies();
    let (requests, hold) = request.reservation()?;
    match requests {
        DecisionRequest::One(request) => {
            let reserved = service.reserve(Transport::Http, &active, &request, hold).await?;
            let (body, one) = (ReservationBody::new(&reserved, millis(hold.ttl())), &reserved.decided);
            Ok(respond(&body, &one.decision, denied, |headers| headers::write(headers, &context, one)))
        }
        DecisionRequest::Several(requests) => {
            unread_body::make_room(memory.as_ref(), requests.len())?;
            let reserved = service.reserve_all(Transport::Http, &active, &requests, hold).await?;
            let (body, all) = (ReservationBody::new(&reserved, millis(hold.ttl())), &reserved.decided);
            Ok(respond(&body, &all.overall, denied, |headers| headers::write_all(headers, &context, all)))
        }
    }
}

/// Closes a hold whose work took `actual` units: unused units are given back, and missing units are spent, past the limit
/// if necessary.
#[utoipa::path(
    post, path = "/v1/commit", tag = "reservations", request_body = super::openapi_reservations::CommitRequest,
    responses((status = 200, description = "Committed, if the hold was open", body = SettledBody), super::openapi::Problems)
)]
pub(super) async fn commit(
    State(context): State<Arc<Context>>,
    request: HttpRequest,
) -> Result<Json<SettledBody>, Problem> {
    let body = super::body(&context, Access::Usage, request).await?;
    let CommitInput { reservation, actual } = read(&body)?;
    change(&context, &reservation, ReservationChange::Commit(actual.units())).await
}

/// Closes a hold and gives all of its units back.
#[utoipa::path(
    post, path = "/v1/release", tag = "reservations", request_body = super::openapi_reservations::ReleaseRequest,
    responses((status = 200, description = "Released, if the hold was open", body = SettledBody), super::openapi::Problems)
)]
pub(super) async fn release(
    State(context): State<Arc<Context>>,
    request: HttpRequest,
) -> Result<Json<SettledBody>, Problem> {
    let body = super::body(&context, Access::Usage, request).await?;
    let ReleaseInput { reservation } = read(&body)?;
    change(&context, &reservation, ReservationChange::Release).await
}

/// Sets the end of an open hold.
#[utoipa::path(
    post, path = "/v1/renew", tag = "reservations", request_body = super::openapi_reservations::RenewRequest,
    responses((status = 200, description = "Renewed, if the hold was open", body = SettledBody), super::openapi::Problems)
)]
pub(super) async fn renew(
    State(context): State<Arc<Context>>,
    request: HttpRequest,
) -> Result<Json<SettledBody>, Problem> {
    let body = super::body(&context, Access::Usage, request).await?;
    let RenewInput { reservation, ttl_ms } = read(&body)?;
    change(&context, &reservation, ReservationChange::Renew(Duration::from_millis(ttl_ms))).await
}

/// Sets units aside that a node may admit by itself until the lease ends. An earlier lease is settled first, even if the
/// new one is denied.
#[utoipa::path(
    post, path = "/v1/lease", tag = "reservations", request_body = super::openapi_reservations::LeaseRequest,
    params(("deny_status" = Option<u16>, Query, minimum = 200, maximum = 200, description = "200 for a denial, too: the body contains the decision")),
    responses(super::openapi::Problems, super::openapi_reservations::LeaseResponses)
)]
pub(super) async fn lease(State(context): State<Arc<Context>>, request: HttpRequest) -> Result<Response, Problem> {
    let service = &context.service;
    let denied = deny_status(request.uri())?;
    let body = super::body(&context, Access::Usage, request).await?;
    let request: LeaseInput<'_> = read(&body)?;
    let (key, lease) = request.lease()?;
    let source = LimitSource::Policy(&request.policy);
    let request = KeyRequest { source, key, price: Price::Cost(Cost::ONE), on_failure: None };
    let active = service.active_policies();
    let leased = service.lease(Transport::Http, &active, &request, &lease).await;
    // The fields of the settle are inside an object. The new lease has no actual cost and no id.
    let leased = leased.map_err(|refusal| {
        refusal.in_field(|field| match field {
            "actual" | "spent" => "settle.spent",
            "reservation" => "settle.reservation",
            other => other,
        })
    })?;
    let (body, one) = (LeaseBody::new(&leased, &lease), &leased.reserved.decided);
    Ok(respond(&body, &one.decision, denied, |headers| headers::write(headers, &context, one)))
}

/// Closes a lease of which `spent` units were spent.
#[utoipa::path(
    post, path = "/v1/settle", tag = "reservations", request_body = super::openapi_reservations::SettleRequest,
    responses((status = 200, description = "Settled, if the lease was open", body = SettledBody), super::openapi::Problems)
)]
pub(super) async fn settle(
    State(context): State<Arc<Context>>,
    request: HttpRequest,
) -> Result<Json<SettledBody>, Problem> {
    let body = super::body(&context, Access::Usage, request).await?;
    let SettleInput { reservation, spent } = read(&body)?;
    change(&context, &reservation, ReservationChange::Settle(spent)).await
}

async fn change(
    context: &Context,
    reservation: &str,
    change: ReservationChange<'_>,
) -> Result<Json<SettledBody>, Problem> {
    let active = context.service.active_policies();
    let changed = context.service.change_reservation(&active, reservation, change).await;
    let settles = matches!(change, ReservationChange::Settle(_));
    let changed = changed
        .map_err(|refusal| refusal.in_field(|field| if settles && field == "actual" { "spent" } else { field }))?;
    Ok(Json(SettledBody::from(&changed)))
}
