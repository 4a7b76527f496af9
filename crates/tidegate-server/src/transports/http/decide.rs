//! check, peek and charge.

use std::sync::Arc;

use axum::{
    body::Body as Bytes,
    extract::{Request as HttpRequest, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header::CONTENT_TYPE},
    response::Response,
};
use tidegate::{Decision, Op, Reason};

use super::{headers, problem::Problem, query, request::Asked, unread_body};
use crate::{access::Access, door::House, metrics::Transport, transports::body::Body, unread::Reservation};

/// Spends if it fits.
#[utoipa::path(
    post, path = "/v1/check", tag = "decisions", request_body = super::openapi::CheckRequest,
    params(("deny_status" = Option<u16>, Query, minimum = 200, maximum = 200, description = "200 for a denial, too: the body tells it")),
    responses(super::openapi::DecisionResponses)
)]
pub(super) async fn check(State(house): State<Arc<House>>, request: HttpRequest) -> Result<Response, Problem> {
    decide(&house, Op::Check, request).await
}

/// Answers as check would; nothing is spent.
#[utoipa::path(
    post, path = "/v1/peek", tag = "decisions", request_body = super::openapi::CheckRequest,
    params(("deny_status" = Option<u16>, Query, minimum = 200, maximum = 200, description = "200 for a denial, too: the body tells it")),
    responses(super::openapi::DecisionResponses)
)]
pub(super) async fn peek(State(house): State<Arc<House>>, request: HttpRequest) -> Result<Response, Problem> {
    decide(&house, Op::Peek, request).await
}

/// Spends regardless, for costs known only afterwards.
#[utoipa::path(
    post, path = "/v1/charge", tag = "decisions", request_body = super::openapi::CheckRequest,
    params(("deny_status" = Option<u16>, Query, minimum = 200, maximum = 200, description = "200 for a denial, too: the body tells it")),
    responses(super::openapi::DecisionResponses)
)]
pub(super) async fn charge(State(house): State<Arc<House>>, request: HttpRequest) -> Result<Response, Problem> {
    decide(&house, Op::Charge, request).await
}

async fn decide(house: &House, op: Op, request: HttpRequest) -> Result<Response, Problem> {
    let service = &house.service;
    let denied = deny_status(request.uri())?;
    let reservation = request.extensions().get::<Arc<Reservation>>().cloned();
    let body = super::body(house, Access::Usage, request).await?;
    let request = super::understand(house, &body)?;
    let asked = request.asked().inspect_err(|_| service.metrics().refused(Transport::Http))?;
    let live = service.live();
    match asked {
        Asked::One(ask) => {
            let answer = service.decide(Transport::Http, &live, op, &ask).await?;
            let body = Body::from(&answer);
            Ok(respond(&body, &answer.decision, denied, |told| headers::of_one(told, house, &answer)))
        }
        Asked::Several(asks) => {
            unread_body::make_room(reservation.as_ref(), asks.len())?;
            let answers = service.decide_all(Transport::Http, &live, op, &asks).await?;
            let body = Body::from(&answers);
            Ok(respond(&body, &answers.overall, denied, |told| headers::of_several(told, house, &answers)))
        }
    }
}

/// The status that a decision has.
pub(super) fn status(decision: &Decision) -> StatusCode {
    match decision.reason() {
        Reason::Allowed | Reason::Shadow => StatusCode::OK,
        Reason::Limited => StatusCode::TOO_MANY_REQUESTS,
        Reason::Impossible => StatusCode::UNPROCESSABLE_ENTITY,
        Reason::Banned => StatusCode::FORBIDDEN,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The status of denials, for callers to whom one is no failure: a browser writes each into its console.
fn deny_status(uri: &Uri) -> Result<Option<StatusCode>, Problem> {
    let Some(query) = uri.query() else { return Ok(None) };
    match query::read(query, &["deny_status"])?.only("deny_status")? {
        None => Ok(None),
        Some("200") => Ok(Some(StatusCode::OK)),
        Some(_) => {
            let message = "`deny_status` is 200 here: the body says whether it was allowed";
            Err(Problem::new(StatusCode::BAD_REQUEST, "deny_status", message))
        }
    }
}

fn respond(
    body: &Body,
    decision: &Decision,
    denied: Option<StatusCode>,
    tell: impl FnOnce(&mut HeaderMap),
) -> Response {
    let mut json = Vec::with_capacity(256);
    serde_json::to_writer(&mut json, body).expect("numbers and texts are always JSON");
    let mut response = Response::new(Bytes::from(json));
    let usual = status(decision);
    *response.status_mut() = denied.filter(|_| !decision.is_allowed()).unwrap_or(usual);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if matches!(usual, StatusCode::OK | StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN) {
        tell(response.headers_mut());
    }
    response
}
