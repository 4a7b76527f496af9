//! refund, reset and inspect: what needs the admin token where there is one.

use std::sync::Arc;

use axum::{
    Json,
    extract::{RawQuery, Request as HttpRequest, State},
    http::{HeaderMap, StatusCode},
};
use serde::Serialize;
use tidegate::{Algorithm, Entry, InUse, Limit, OverrideRule, Policy, Store as _};
use utoipa::ToSchema;

use super::{guest::Guest, overrides::ShownOverride, problem::Problem, request::Request, unread_body};
use crate::{
    access::Access,
    door::House,
    insight::Eyes,
    service::{Refusal, Who},
    transports::body::millis,
    unread::Reservation,
};

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
    /// What is shown of the key.
    label: String,
    /// When it was charged last, in microseconds since the epoch.
    newest_charge_us: Option<u64>,
    /// The time that all this is told at, in microseconds since the epoch.
    now_us: u64,
    /// How units in use are counted.
    #[schema(example = "sliding_log")]
    algorithm: String,
    /// `enforce` or `shadow`.
    mode: &'static str,
    /// What holds for this key in place of the policy's limits; null if nothing does.
    r#override: Option<ShownOverride>,
    /// What is in use under each limit.
    limits: Vec<ShownLimit>,
}

/// What is in use under one limit.
#[derive(Debug, Serialize, ToSchema)]
struct ShownLimit {
    /// The limit.
    #[schema(example = "60/1m")]
    limit: String,
    /// The most units that can be in use at once.
    capacity: u64,
    /// The window, in microseconds.
    window_us: u64,
    /// In how many buckets it is counted; 1 for algorithms without.
    buckets: u64,
    /// Units in use.
    used: u64,
    /// Units left.
    remaining: u64,
    /// How long until fewer units are in use; null if none are.
    next_free_after_ms: Option<u64>,
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
    let reservation = request.extensions().get::<Arc<Reservation>>().cloned();
    let body = super::body(&house, Access::Admin, request).await?;
    let request = super::understand(&house, &body)?;
    let refunds = request.refunds()?;
    let live = house.service.live();
    // All that can be known beforehand, so that none is given back of several that can't be.
    for (ask, _) in &refunds {
        house.service.knows(&live, ask)?;
    }
    if request.has_checks() {
        unread_body::make_room(reservation.as_ref(), refunds.len())?;
    }
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
pub(super) async fn reset(
    State(house): State<Arc<House>>,
    guest: Guest,
    request: HttpRequest,
) -> Result<Json<Forgotten>, Problem> {
    let body = super::body(&house, Access::Admin, request).await?;
    let request = super::understand(&house, &body)?;
    let ask = request.subject()?;
    let reset = house.service.reset(&house.service.live(), &ask, Who { address: guest.address }).await?;
    Ok(Json(Forgotten { reset }))
}

/// Shows the state of a key.
#[utoipa::path(
    get, path = "/v1/inspect", tag = "admin",
    params(
        ("policy" = String, Query, description = "The policy"),
        ("key" = Vec<String>, Query, description = "The key; several are a list"),
        ("list" = Option<bool>, Query, description = "Whether one key is a list, too"),
    ),
    responses((status = 200, description = "What is known of the key", body = Shown), super::openapi::Problems)
)]
pub(super) async fn inspect(
    State(house): State<Arc<House>>,
    guest: Guest,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Json<Shown>, Problem> {
    guest.needs(&house, &headers, Access::Admin)?;
    let query = super::query::read(query.as_deref().unwrap_or(""), &["policy", "key", "list"])?;
    let policy = query.only("policy")?.ok_or_else(|| missing("policy"))?;
    let keys = query.all("key");
    if keys.is_empty() {
        return Err(missing("key"));
    }
    Ok(Json(look(&house, &Request::of_query(policy, keys, query.is("list")?), guest.eyes).await?))
}

fn missing(field: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, field, format!("the query lacks `{field}`: ask `?policy=…&key=…`"))
}

/// The state of the key that a request names, for those who look with these eyes.
pub(super) async fn look(house: &House, request: &Request<'_>, eyes: Eyes) -> Result<Shown, Problem> {
    let (name, key) = request.policy_and_key()?;
    let service = &house.service;
    let live = service.live();
    let configured = live.find(name)?;
    let policy = &configured.policy;
    let inspection = service.store().store().inspect(policy, &key).await.map_err(Refusal::from)?;
    let overridden = service.store().store().override_of(policy, &key).await.map_err(Refusal::from)?;
    let in_force = match overridden.as_ref().map(|overridden| overridden.by.rule()) {
        Some(OverrideRule::Limits(limits)) => limits,
        _ => policy,
    };
    let is_banned = overridden.as_ref().is_some_and(|o| matches!(o.by.rule(), OverrideRule::Ban));
    let limits = in_force.limits().iter().enumerate().map(|(place, limit)| {
        let in_use = inspection.as_ref().and_then(|inspection| inspection.limits.get(place));
        shown_limit(in_force, *limit, in_use, is_banned)
    });
    Ok(Shown {
        policy: name.to_owned(),
        found: inspection.is_some(),
        label: service.insight().labeller.label(&key, configured.hide_keys, eyes).label,
        newest_charge_us: inspection.as_ref().map(|inspection| inspection.newest_charge.as_micros()),
        now_us: service.clock().now().as_micros(),
        algorithm: in_force.algorithm().to_string(),
        mode: policy.mode().as_str(),
        r#override: overridden.as_ref().map(ShownOverride::from),
        limits: limits.collect(),
    })
}

/// How a limit stands; one that nothing is known of has nothing in use.
fn shown_limit(policy: &Policy, limit: Limit, in_use: Option<&InUse>, is_banned: bool) -> ShownLimit {
    let capacity = policy.capacity(limit);
    let used = in_use.map_or(0, |in_use| in_use.used);
    let entry = |entry: &Entry| ShownEntry {
        first_us: entry.first.as_micros(),
        last_us: entry.last.as_micros(),
        units: entry.units,
    };
    ShownLimit {
        limit: limit.to_string(),
        capacity,
        window_us: u64::try_from(limit.window().as_micros()).unwrap_or(u64::MAX),
        buckets: match policy.algorithm() {
            Algorithm::SlidingBuckets(buckets) => buckets.get(),
            _ => 1,
        },
        used,
        remaining: if is_banned { 0 } else { in_use.map_or(capacity, |in_use| in_use.remaining) },
        next_free_after_ms: in_use.filter(|_| used > 0).map(|in_use| millis(in_use.next_free_after)),
        reset_after_ms: in_use.map_or(0, |in_use| millis(in_use.reset_after)),
        entries: in_use.map_or_else(Vec::new, |in_use| in_use.entries.iter().map(entry).collect()),
        unlisted: in_use.map_or(0, |in_use| in_use.unlisted),
    }
}
