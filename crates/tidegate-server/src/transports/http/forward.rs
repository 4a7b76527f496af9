//! `/v1/forward`: for proxies that ask before they pass a request on. The key is not said but found: in a header, or in the
//! client's address as the proxy tells it.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use tidegate::{Cost, Op};

use super::{connection::Peer, decide, guard, headers, problem::Problem, query};
use crate::{
    access::Access,
    door::House,
    metrics::Transport,
    service::{Ask, By, Price},
    transports::body::Body,
};

const KNOWN: [&str; 4] = ["policy", "deny_status", "cost", "operation"];

/// Decides on a request that a proxy holds back until it is answered.
#[utoipa::path(
    get, path = "/v1/forward", tag = "decisions",
    params(
        ("policy" = String, Query, description = "The policy"),
        ("cost" = Option<u64>, Query, description = "Units to spend; 1 if unsaid"),
        ("operation" = Option<String>, Query, description = "Or what the policy says this costs"),
        ("deny_status" = Option<u16>, Query, minimum = 400, maximum = 599, description = "Status of a denial in place of 429, for nginx"),
    ),
    responses(
        (status = 200, description = "Pass it on", body = Body),
        (status = 429, description = "Deny it", body = Body),
        (status = "4XX", description = "As `deny_status` says, or what is wrong with the question"),
        (status = "5XX", description = "As `deny_status` says, or the store failed and the policy says closed"),
    )
)]
pub(super) async fn forward(
    State(house): State<Arc<House>>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    uri: Uri,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let forwarding = &house.settings.forwarding;
    // A proxy passes the headers of the request that it asks about, so those tell nothing about itself. Who is one has to be
    // said, though: anyone's page can get at a service on its reader's machine.
    if !(forwarding.is_said && forwarding.client.is_trusted(peer.ip())) {
        guard::origin(&house.settings, &headers, &uri)?;
    }
    super::access(&house, &headers, Access::Usage)?;
    let query = query::read(query.as_deref().unwrap_or(""), &KNOWN)?;
    let wrong = |field: &'static str, message: &str| Problem::new(StatusCode::BAD_REQUEST, field, message);
    let policy = query.only("policy")?.ok_or_else(|| wrong("policy", "the query lacks `policy`: ask `?policy=…`"))?;
    let deny_status = match query.only("deny_status")? {
        None => None,
        Some(text) => {
            let status = text.parse().ok().filter(|status| (400..=599).contains(status));
            let status = status.and_then(|status: u16| StatusCode::from_u16(status).ok());
            Some(status.ok_or_else(|| wrong("deny_status", "`deny_status` is a status from 400 to 599, such as 403"))?)
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
    let live = house.service.live();
    let configured = live.find(policy)?;
    let client = forwarding.client.find(&headers, Some(peer.ip())).unwrap_or(peer.ip());
    let client = forwarding.client.text(client);
    let key = configured.key.key(&headers, &client).map_err(|error| wrong("key", &error.to_string()))?;
    let ask = Ask { by: By::Policy(policy), key, price, on_failure: None };
    let answer = house.service.decide(Transport::Http, &live, Op::Check, &ask).await?;
    // A proxy knows no more than yes and no: what can never fit is denied like what doesn't now.
    let status = match decide::status(&answer.decision) {
        StatusCode::OK => StatusCode::OK,
        StatusCode::UNPROCESSABLE_ENTITY => deny_status.unwrap_or(StatusCode::TOO_MANY_REQUESTS),
        status => deny_status.unwrap_or(status),
    };
    let mut response = (status, Json(Body::from(&answer))).into_response();
    headers::of_one(response.headers_mut(), &house, &answer);
    Ok(response)
}
