//! refund, reset and inspect: what needs the admin token where there is one.

use std::sync::Arc;

use axum::{
    Json,
    extract::{RawQuery, Request as HttpRequest, State},
    http::{HeaderMap, StatusCode, Uri},
};
use serde::Serialize;
use tidegate::{InUse, Inspection};
use utoipa::ToSchema;

use super::{problem::Problem, request::Request};
use crate::{access::Access, door::House, transports::body::millis};

/// What a refund came to.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Refunded {
    /// Whether there was anything to give back.
    returned: bool,
    /// Units left after it; the least over all limits.
    remaining: u64,
    /// How long until nothing is in use.
    reset_after_ms: u64,
    /// Of each, where there were several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    checks: Option<Vec<Refunded>>,
}

/// What a reset came to.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Forgotten {
    /// Whether there was anything to forget.
    reset: bool,
}

/// What is known of a key.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Shown {
    /// The policy.
    policy: String,
    /// Whether anything is known; if not, nothing is in use.
    found: bool,
    /// When it was charged last, in microseconds since the epoch.
    newest_charge_us: Option<u64>,
    /// What is in use under each limit.
    limits: Vec<ShownLimit>,
}

/// What is in use under one limit.
#[derive(Debug, Serialize, ToSchema)]
struct ShownLimit {
    /// The limit.
    #[schema(example = "60/1m")]
    limit: String,
    /// Units in use.
    used: u64,
    /// Units left.
    remaining: u64,
    /// How long until nothing is in use.
    reset_after_ms: u64,
    /// The units remembered, oldest first, a thousand at the most.
    entries: Vec<ShownEntry>,
    /// How many older ones are not listed.
    unlisted: usize,
}

/// Units charged at some time between two instants.
#[derive(Debug, Serialize, ToSchema)]
struct ShownEntry {
    /// The first instant.
    first_us: u64,
    /// The last instant.
    last_us: u64,
    /// How many.
    units: u64,
}

/// Gives units back to the moment they were charged at.
#[utoipa::path(
    post, path = "/v1/refund", tag = "admin", request_body = super::openapi::RefundRequest,
    responses((status = 200, description = "Given back, as far as there was something", body = Refunded), super::openapi::Problems)
)]
pub(super) async fn refund(State(house): State<Arc<House>>, request: HttpRequest) -> Result<Json<Refunded>, Problem> {
    let body = super::body(&house, Access::Admin, request).await?;
    let request = Request::read(&body).map_err(|(field, error)| Problem::new(StatusCode::BAD_REQUEST, field, error))?;
    let refunds = request.refunds()?;
    let live = house.service.live();
    let mut each = Vec::with_capacity(refunds.len());
    for (ask, charged_at) in refunds {
        let refund = house.service.refund(&live, &ask, charged_at).await?;
        each.push(Refunded {
            returned: refund.is_returned(),
            remaining: refund.remaining(),
            reset_after_ms: millis(refund.reset_after()),
            checks: None,
        });
    }
    let whole = Refunded {
        returned: each.iter().any(|refund| refund.returned),
        remaining: each.iter().map(|refund| refund.remaining).min().unwrap_or(0),
        reset_after_ms: each.iter().map(|refund| refund.reset_after_ms).max().unwrap_or(0),
        checks: request.has_checks().then_some(each),
    };
    Ok(Json(whole))
}

/// Forgets a key.
#[utoipa::path(
    post, path = "/v1/reset", tag = "admin", request_body = super::openapi::ResetRequest,
    responses((status = 200, description = "Forgotten, if there was anything", body = Forgotten), super::openapi::Problems)
)]
pub(super) async fn reset(State(house): State<Arc<House>>, request: HttpRequest) -> Result<Json<Forgotten>, Problem> {
    let body = super::body(&house, Access::Admin, request).await?;
    let request = Request::read(&body).map_err(|(field, error)| Problem::new(StatusCode::BAD_REQUEST, field, error))?;
    let ask = request.subject()?;
    let reset = house.service.reset(&house.service.live(), &ask).await?;
    Ok(Json(Forgotten { reset }))
}

/// Shows the state of a key.
#[utoipa::path(
    get, path = "/v1/inspect", tag = "admin",
    params(
        ("policy" = String, Query, description = "The policy"),
        ("key" = Vec<String>, Query, description = "The key; several are a list"),
    ),
    responses((status = 200, description = "What is known of the key", body = Shown), super::openapi::Problems)
)]
pub(super) async fn inspect(
    State(house): State<Arc<House>>,
    headers: HeaderMap,
    uri: Uri,
    RawQuery(query): RawQuery,
) -> Result<Json<Shown>, Problem> {
    super::admit(&house, &headers, &uri, Access::Admin)?;
    let query = super::query::read(query.as_deref().unwrap_or(""), &["policy", "key"])?;
    let policy = query.only("policy")?.ok_or_else(|| missing("policy"))?;
    let keys = query.all("key");
    if keys.is_empty() {
        return Err(missing("key"));
    }
    let request = Request::of_query(policy, keys);
    let inspection = house.service.inspect(&house.service.live(), &request.subject()?).await?;
    Ok(Json(shown(policy, inspection.as_ref())))
}

fn missing(field: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, field, format!("the query lacks `{field}`: ask `?policy=…&key=…`"))
}

fn shown(policy: &str, inspection: Option<&Inspection>) -> Shown {
    let limit = |in_use: &InUse| ShownLimit {
        limit: in_use.limit.to_string(),
        used: in_use.used,
        remaining: in_use.remaining,
        reset_after_ms: millis(in_use.reset_after),
        entries: in_use
            .entries
            .iter()
            .map(|entry| ShownEntry {
                first_us: entry.first.as_micros(),
                last_us: entry.last.as_micros(),
                units: entry.units,
            })
            .collect(),
        unlisted: in_use.unlisted,
    };
    Shown {
        policy: policy.to_owned(),
        found: inspection.is_some(),
        newest_charge_us: inspection.map(|inspection| inspection.newest_charge.as_micros()),
        limits: inspection.map_or_else(Vec::new, |inspection| inspection.limits.iter().map(limit).collect()),
    }
}
