//! check, peek and charge.

use std::sync::Arc;

use axum::{
    body::Body as Bytes,
    extract::{Request as HttpRequest, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header::CONTENT_TYPE},
    response::Response,
};
use serde::Serialize;
use tidegate::{Decision, Op, Reason};

use super::{
    headers,
    problem::Problem,
    query::{Query, wrong},
    request::{DecisionRequest, Request},
    unread_body,
};
use crate::{
    auth::Access, connections::Reservation, context::Context, metrics::Transport,
    transports::decision_body::DecisionBody,
};

/// Spends the cost if it fits.
#[utoipa::path(
    post, path = "/v1/check", tag = "decisions", request_body = super::openapi::CheckRequest,
    params(("deny_status" = Option<u16>, Query, minimum = 200, maximum = 200, description = "200 for a denial, too: the body contains the decision")),
    responses(super::openapi::Problems, super::openapi::DecisionResponses)
)]
pub(super) async fn check(State(context): State<Arc<Context>>, request: HttpRequest) -> Result<Response, Problem> {
    decide(&context, Op::Check, request).await
}

/// Returns the decision that check would make, and spends nothing.
#[utoipa::path(
    post, path = "/v1/peek", tag = "decisions", request_body = super::openapi::CheckRequest,
    params(("deny_status" = Option<u16>, Query, minimum = 200, maximum = 200, description = "200 for a denial, too: the body contains the decision")),
    responses(super::openapi::Problems, super::openapi::DecisionResponses)
)]
pub(super) async fn peek(State(context): State<Arc<Context>>, request: HttpRequest) -> Result<Response, Problem> {
    decide(&context, Op::Peek, request).await
}

/// Spends the cost even beyond the limit, for costs that are known only afterwards.
#[utoipa::path(
    post, path = "/v1/charge", tag = "decisions", request_body = super::openapi::CheckRequest,
    params(("deny_status" = Option<u16>, Query, minimum = 200, maximum = 200, description = "200 for a denial, too: the body contains the decision")),
    responses(super::openapi::Problems, super::openapi::DecisionResponses)
)]
pub(super) async fn charge(State(context): State<Arc<Context>>, request: HttpRequest) -> Result<Response, Problem> {
    decide(&context, Op::Charge, request).await
}

async fn decide(context: &Context, op: Op, request: HttpRequest) -> Result<Response, Problem> {
    let service = &context.service;
    let denied = deny_status(request.uri())?;
    let reservation = request.extensions().get::<Arc<Reservation>>().cloned();
    let body = super::body(context, Access::Usage, request).await?;
    let request = Request::read(&body)?;
    let active = service.active_policies();
    match request.decision()? {
        DecisionRequest::One(request) => {
            let one = service.decide(Transport::Http, &active, op, &request).await?;
            let body = DecisionBody::from(&one);
            Ok(respond(&body, &one.decision, denied, |headers| headers::write(headers, context, &one)))
        }
        DecisionRequest::Several(requests) => {
            unread_body::make_room(reservation.as_ref(), requests.len())?;
            let all = service.decide_all(Transport::Http, &active, op, &requests).await?;
            let body = DecisionBody::from(&all);
            Ok(respond(&body, &all.overall, denied, |headers| headers::write_all(headers, context, &all)))
        }
    }
}

/// Returns the HTTP status of a decision.
pub(super) fn status(decision: &Decision) -> StatusCode {
    match decision.reason() {
        Reason::Allowed | Reason::Shadow => StatusCode::OK,
        Reason::Limited => StatusCode::TOO_MANY_REQUESTS,
        Reason::Impossible => StatusCode::UNPROCESSABLE_ENTITY,
        Reason::Banned => StatusCode::FORBIDDEN,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Returns the status for denials, if the caller wants another one: a browser logs each error status.
pub(super) fn deny_status(uri: &Uri) -> Result<Option<StatusCode>, Problem> {
    let Some(query) = uri.query() else { return Ok(None) };
    match Query::parse(Some(query), &["deny_status"])?.only("deny_status")? {
        None => Ok(None),
        Some("200") => Ok(Some(StatusCode::OK)),
        Some(_) => Err(wrong("deny_status", "`deny_status` must be 200 here: the body contains the decision")),
    }
}

/// Writes the response to a decision.
pub(super) fn respond(
    body: &impl Serialize,
    decision: &Decision,
    denied: Option<StatusCode>,
    write_headers: impl FnOnce(&mut HeaderMap),
) -> Response {
    let mut json = Vec::with_capacity(256);
    serde_json::to_writer(&mut json, body).expect("numbers and texts are always JSON");
    let mut response = Response::new(Bytes::from(json));
    let usual = status(decision);
    *response.status_mut() = denied.filter(|_| !decision.is_allowed()).unwrap_or(usual);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if matches!(usual, StatusCode::OK | StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN) {
        write_headers(response.headers_mut());
    }
    response
}
