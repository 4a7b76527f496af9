//! `/v1/forward`: for proxies that ask before they pass a request on. The key is in a header, or it is the client's
//! address as the proxy reports it.
//!
//! A proxy sends the `Host`, the `Origin` and the method of the request that it asks about, so any of them are
//! accepted. Without a token, a web page on this machine can therefore spend units through this path. It can change
//! nothing else.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get},
};
use tidegate::{Cost, Decision, Key, Op};
use tidegate_tower::{AddressText, KeyHeaderError, KeySource};

use super::{connection::Peer, decide, headers, problem::Problem, query};
use crate::{
    access::Access,
    door::House,
    metrics::Transport,
    service::{Ask, By, Price},
    transports::{body::Body, long_key},
};

/// Routes for the methods of requests that proxies ask about.
pub(super) fn routes() -> MethodRouter<Arc<House>> {
    // The route for GET answers HEAD as well.
    get(forward).post(forward).put(forward).patch(forward).delete(forward).options(forward)
}

const KNOWN: [&str; 4] = ["policy", "deny_status", "cost", "operation"];

/// What the proxy's URL asks for.
struct Question<'q> {
    policy: &'q str,
    deny_status: Option<StatusCode>,
    price: Price<'q>,
}

/// Decides on a request that a proxy holds back until it is answered.
///
/// It accepts the other methods, too: some proxies ask with the method of the request that they hold back.
#[utoipa::path(
    get, path = "/v1/forward", tag = "decisions",
    params(
        ("policy" = String, Query, description = "The policy"),
        ("cost" = Option<u64>, Query, minimum = 1, maximum = 1_000_000_000_000_u64, description = "Units to spend; 1 by default"),
        ("operation" = Option<String>, Query, description = "An operation of the policy, instead of the cost"),
        ("deny_status" = Option<u16>, Query, minimum = 400, maximum = 599, description = "Status of a denial in place of 429, for nginx"),
    ),
    responses(
        (status = 200, description = "Pass it on", body = Body),
        (status = 429, description = "Deny it", body = Body),
        (status = "4XX", description = "A denial with `deny_status`, or the request is wrong"),
        (status = "5XX", description = "A denial with `deny_status`, or the store failed and the policy is closed"),
    )
)]
pub(super) async fn forward(
    State(house): State<Arc<House>>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = query.unwrap_or_default();
    let refused = |problem: &Problem| {
        house.service.metrics().refused(Transport::Http);
        report(problem, peer.ip());
    };
    super::access(&house, &headers, Access::Usage).inspect_err(refused)?;
    let query = query::read(&query, &KNOWN).inspect_err(refused)?;
    let question = Question::read(&query).inspect_err(refused)?;
    let live = house.service.live();
    let configured = live.find(question.policy).map_err(Problem::from).inspect_err(refused)?;
    let found = &house.settings.forwarding.client;
    let client = found.text(found.find(&headers, Some(peer.ip())).unwrap_or(peer.ip()));
    // The client causes this error, not the configuration of the proxy. It is a denial, because a proxy that fails open
    // must not pass the request on.
    let key = key(&configured.key, &headers, &client)
        .map_err(|error| {
            let status = question.deny_status.unwrap_or(StatusCode::BAD_REQUEST);
            Problem::new(status, "key", error.to_string())
        })
        .inspect_err(refused)?;
    let ask = Ask { by: By::Policy(question.policy), key, price: question.price, on_failure: None };
    let decided = house.service.decide(Transport::Http, &live, Op::Check, &ask).await;
    // The service has already counted the refusal.
    let answer = decided.map_err(Problem::from).inspect_err(|problem| report(problem, peer.ip()))?;
    let mut response = (status(&answer.decision, question.deny_status), Json(Body::from(&answer))).into_response();
    // A ban has a retry time and no quota; the remaining answers have neither.
    let has_headers = [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS, StatusCode::FORBIDDEN];
    if has_headers.contains(&decide::status(&answer.decision)) {
        headers::of_one(response.headers_mut(), &house, &answer);
    }
    Ok(response)
}

/// The status of the answer to a proxy. A proxy can only pass a request on or deny it, so a cost that never fits is
/// denied like a cost that does not fit now.
fn status(decision: &Decision, deny_status: Option<StatusCode>) -> StatusCode {
    match decide::status(decision) {
        StatusCode::OK => StatusCode::OK,
        StatusCode::UNPROCESSABLE_ENTITY => deny_status.unwrap_or(StatusCode::TOO_MANY_REQUESTS),
        status => deny_status.unwrap_or(status),
    }
}

/// The key of a request. A header that is too long for a key is counted by its digest.
fn key<'r>(source: &KeySource, headers: &'r HeaderMap, client: &'r AddressText) -> Result<Key<'r>, KeyHeaderError> {
    match (source.key(headers, client), source) {
        (Err(KeyHeaderError::Key(_)), KeySource::Header(name)) => {
            let value = headers.get(name).map_or(&b""[..], |value| value.as_bytes());
            Ok(long_key::digest([name.as_str().as_bytes(), value]))
        }
        (key, _) => key,
    }
}

/// Logs why a proxy got no decision: its clients see only an error of the proxy.
fn report(problem: &Problem, proxy: std::net::IpAddr) {
    tracing::warn!(%proxy, status = problem.status().as_u16(), reason = problem.error(), "refused a request to /v1/forward");
}

impl<'q> Question<'q> {
    fn read(query: &'q query::Query<'_>) -> Result<Self, Problem> {
        let wrong = |field: &'static str, message: &str| Problem::new(StatusCode::BAD_REQUEST, field, message);
        let policy =
            query.only("policy")?.ok_or_else(|| wrong("policy", "the query lacks `policy`: ask `?policy=…`"))?;
        let deny_status =
            match query.only("deny_status")? {
                None => None,
                Some(text) => {
                    let status = text.parse().ok().filter(|status| (400..=599).contains(status));
                    let status = status.and_then(|status: u16| StatusCode::from_u16(status).ok());
                    Some(status.ok_or_else(|| {
                        wrong("deny_status", "`deny_status` is a status from 400 to 599, such as 403")
                    })?)
                }
            };
        let price = match (query.only("cost")?, query.only("operation")?) {
            (None, None) => Price::Cost(Cost::ONE),
            (None, Some(operation)) => Price::Operation(operation),
            (Some(cost), None) => {
                let cost = cost.parse().ok().and_then(|cost| Cost::new(cost).ok());
                Price::Cost(cost.ok_or_else(|| wrong("cost", "`cost` is a number from 1 to 1000000000000"))?)
            }
            (Some(_), Some(_)) => {
                return Err(wrong("cost", "`cost` and `operation` are two ways to say the cost: use one"));
            }
        };
        Ok(Self { policy, deny_status, price })
    }
}
