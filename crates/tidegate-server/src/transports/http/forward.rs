//! `/v1/forward`: for proxies that request a decision before they forward a request. The key is in a header, or it is the address
//! of the client as the proxy reports it.
//!
//! A proxy sends the `Host`, the `Origin` and the method of the original request, so any of them are accepted. Without a token, a
//! web page on this machine can therefore spend units through this path. It can change nothing else.

use std::{net::IpAddr, sync::Arc};

use axum::{
    Extension, Json,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get},
};
use tidegate::{Cost, Decision, Key, Op};
use tidegate_tower::{AddressText, KeyHeaderError, KeySource};

use super::{
    connection::Peer,
    decide, headers,
    problem::Problem,
    query::{Query, wrong},
};
use crate::{
    auth::Access,
    context::Context,
    metrics::Transport,
    service::{KeyRequest, LimitSource, Price, Refusal},
    transports::{decision_body::DecisionBody, long_key},
};

/// Returns routes for all methods that an original request can have.
pub(super) fn routes() -> MethodRouter<Arc<Context>> {
    // The route for GET answers HEAD as well.
    get(forward).post(forward).put(forward).patch(forward).delete(forward).options(forward)
}

const KNOWN: [&str; 4] = ["policy", "deny_status", "cost", "operation"];

/// Decides whether a proxy should forward a request.
///
/// It accepts the other methods, too: some proxies use the method of the original request.
#[utoipa::path(
    get, path = "/v1/forward", tag = "decisions",
    params(
        ("policy" = String, Query, description = "The policy"),
        ("cost" = Option<u64>, Query, minimum = 1, maximum = 1_000_000_000_000_u64, description = "Units to spend; 1 by default"),
        ("operation" = Option<String>, Query, description = "An operation of the policy, instead of the cost"),
        ("deny_status" = Option<u16>, Query, minimum = 400, maximum = 599, description = "Status of a denial instead of 429, for nginx"),
    ),
    responses(
        (status = 200, description = "Forward it", body = DecisionBody),
        (status = 429, description = "Deny it", body = DecisionBody),
        (status = "4XX", description = "A denial with `deny_status`, or the request is wrong"),
        (status = "5XX", description = "A denial with `deny_status`, or the store failed and the policy is closed"),
    )
)]
pub(super) async fn forward(
    State(context): State<Arc<Context>>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    decide_for_proxy(&context, peer.ip(), &headers, query.as_deref()).await.inspect_err(|problem| {
        // The clients of the proxy see only an error of the proxy, so the reason is logged.
        let (proxy, status, reason) = (peer.ip(), problem.status.as_u16(), &problem.error);
        tracing::warn!(%proxy, status, reason, "refused a request to /v1/forward");
    })
}

async fn decide_for_proxy(
    context: &Context,
    peer: IpAddr,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Response, Problem> {
    super::access(context, headers, Access::Usage)?;
    let query = Query::parse(query, &KNOWN)?;
    let (policy, deny_status, price) = (query.required("policy")?, deny_status(&query)?, price(&query)?);
    let active = context.service.active_policies();
    // Some proxies send this response on to their clients, who may not see the list of policies.
    let configured = active.find(policy).map_err(Refusal::without_known_policies)?;
    let found = &context.settings.forwarding.client;
    let client = found.text(found.find(headers, Some(peer)).unwrap_or(peer));
    // The client causes this error, not the configuration of the proxy. It is a denial, because a proxy that fails open must not
    // forward the request.
    let key = key(&configured.key, headers, &client).map_err(|error| {
        let mut problem = wrong("key", error.to_string());
        problem.status = deny_status.unwrap_or(problem.status);
        problem
    })?;
    let request = KeyRequest { source: LimitSource::Policy(policy), key, price, on_failure: None };
    let answer = context.service.decide(Transport::Http, &active, Op::Check, &request).await?;
    let mut response = (status(&answer.decision, deny_status), Json(DecisionBody::from(&answer))).into_response();
    // A ban has a retry time and no quota; other denials have neither.
    let has_headers = [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS, StatusCode::FORBIDDEN];
    if has_headers.contains(&decide::status(&answer.decision)) {
        headers::write(response.headers_mut(), context, &answer);
    }
    Ok(response)
}

/// Returns the status for a proxy. A proxy can only forward or deny a request, so a cost that never fits is denied like a cost that
/// does not fit now.
fn status(decision: &Decision, deny_status: Option<StatusCode>) -> StatusCode {
    match decide::status(decision) {
        StatusCode::OK => StatusCode::OK,
        StatusCode::UNPROCESSABLE_ENTITY => deny_status.unwrap_or(StatusCode::TOO_MANY_REQUESTS),
        status => deny_status.unwrap_or(status),
    }
}

/// Returns the key of a request. A header that is too long for a key is counted by its digest.
fn key<'r>(source: &KeySource, headers: &'r HeaderMap, client: &'r AddressText) -> Result<Key<'r>, KeyHeaderError> {
    match (source.key_or_address(headers, client), source) {
        (Err(KeyHeaderError::Key(_)), KeySource::Header(name)) => {
            let value = headers.get(name).map_or(&b""[..], |value| value.as_bytes());
            Ok(long_key::digest([name.as_str().as_bytes(), value]))
        }
        (key, _) => key,
    }
}

/// Returns the status of a denial, if the proxy wants another one.
fn deny_status(query: &Query<'_>) -> Result<Option<StatusCode>, Problem> {
    let Some(text) = query.only("deny_status")? else { return Ok(None) };
    let status = text.parse().ok().filter(|status| (400..=599).contains(status));
    let status = status.and_then(|status: u16| StatusCode::from_u16(status).ok());
    let message = "`deny_status` must be a status from 400 to 599, such as 403";
    status.map(Some).ok_or_else(|| wrong("deny_status", message))
}

fn price<'q>(query: &'q Query<'_>) -> Result<Price<'q>, Problem> {
    match (query.only("cost")?, query.only("operation")?) {
        (None, None) => Ok(Price::Cost(Cost::ONE)),
        (None, Some(operation)) => Ok(Price::Operation(operation)),
        (Some(cost), None) => {
            let cost = cost.parse().ok().and_then(|cost| Cost::new(cost).ok());
            cost.map(Price::Cost).ok_or_else(|| wrong("cost", "`cost` must be a number from 1 to 1000000000000"))
        }
        (Some(_), Some(_)) => Err(wrong("cost", "`cost` and `operation` can't be combined: use one of them")),
    }
}
