//! refund, reset and inspect. They need the admin token, if there is one.

use std::sync::Arc;

use axum::{
    Json,
    extract::{RawQuery, Request as HttpRequest, State},
    http::HeaderMap,
};
use tidegate::{Algorithm, Cost, Entry, InUse, Key, Limit, OverrideRule, Policy, Store as _};

use super::{
    api::{ChargeEntry, KeyState, LimitState, OverrideState, RefundResponse, ResetResponse},
    caller::Caller,
    problem::Problem,
    query::Query,
    request::Request,
    unread_body,
};
use crate::{
    auth::Access,
    connections::Reservation,
    context::Context,
    service::{ActivePolicies, KeyRequest, KeyVisibility, LimitSource, Price, Refusal, Service},
    transports::decision_body::millis,
};

/// Refunds units to the moment of their charge.
#[utoipa::path(
    post, path = "/v1/refund", tag = "admin", request_body = super::openapi::RefundRequest,
    responses((status = 200, description = "Refunded, if there were units", body = RefundResponse), super::openapi::Problems)
)]
pub(super) async fn refund(
    State(context): State<Arc<Context>>,
    request: HttpRequest,
) -> Result<Json<RefundResponse>, Problem> {
    let reservation = request.extensions().get::<Arc<Reservation>>().cloned();
    let body = super::body(&context, Access::Admin, request).await?;
    let request = Request::read(&body)?;
    let refunds = request.refunds()?;
    let active = context.service.active_policies();
    // All refunds are validated first, so that a wrong one prevents all of them.
    for (refund, _) in &refunds {
        context.service.validate(&active, refund)?;
    }
    if request.has_checks() {
        unread_body::make_room(reservation.as_ref(), refunds.len())?;
    }
    let mut each = Vec::with_capacity(refunds.len());
    for (request, charged_at) in refunds {
        let refund = context.service.refund(&active, &request, charged_at).await?;
        each.push(RefundResponse {
            returned: refund.is_returned(),
            remaining: refund.remaining(),
            reset_after_ms: millis(refund.reset_after()),
            checks: None,
        });
    }
    let whole = RefundResponse {
        returned: each.iter().any(|refund| refund.returned),
        remaining: each.iter().map(|refund| refund.remaining).min().unwrap_or(0),
        reset_after_ms: each.iter().map(|refund| refund.reset_after_ms).max().unwrap_or(0),
        checks: request.has_checks().then_some(each),
    };
    Ok(Json(whole))
}

/// Resets a key.
#[utoipa::path(
    post, path = "/v1/reset", tag = "admin", request_body = super::openapi::ResetRequest,
    responses((status = 200, description = "Reset, if the key had a state", body = ResetResponse), super::openapi::Problems)
)]
pub(super) async fn reset(
    State(context): State<Arc<Context>>,
    caller: Caller,
    request: HttpRequest,
) -> Result<Json<ResetResponse>, Problem> {
    let body = super::body(&context, Access::Admin, request).await?;
    let request = Request::read(&body)?;
    let active = context.service.active_policies();
    let subject = match request.policy_and_hash()? {
        None => request.subject()?,
        Some((policy, hash)) => {
            let key = context.service.key_of_hash(&active, policy, hash).await?;
            KeyRequest { source: LimitSource::Policy(policy), key, price: Price::Cost(Cost::ONE), on_failure: None }
        }
    };
    let reset = context.service.reset(&active, &subject, caller.actor()).await?;
    Ok(Json(ResetResponse { reset }))
}

/// Shows the state of a key.
#[utoipa::path(
    get, path = "/v1/inspect", tag = "admin",
    params(
        ("policy" = String, Query, description = "The policy"),
        ("key" = Option<Vec<String>>, Query, description = "The key; several values are a list"),
        ("list" = Option<bool>, Query, description = "Whether a single value is a list, too"),
        ("hash" = Option<String>, Query, description = "The hash of the key, instead of `key`, if the policy hides its keys"),
    ),
    responses((status = 200, description = "The state of the key", body = KeyState), super::openapi::Problems)
)]
pub(super) async fn inspect(
    State(context): State<Arc<Context>>,
    caller: Caller,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Json<KeyState>, Problem> {
    caller.require(&context, &headers, Access::Admin)?;
    let query = Query::parse(query.as_deref(), &["policy", "key", "list", "hash"])?;
    let policy = query.required("policy")?;
    let request = match query.only("hash")? {
        Some(hash) if query.all("key").is_empty() => Request::of_hash(policy, hash),
        _ => Request::of_query(policy, query.required_all("key")?, query.is("list")?),
    };
    let active = context.service.active_policies();
    let (_, key) = policy_and_key(&context.service, &active, &request).await?;
    Ok(Json(key_state(&context.service, policy, &key, caller.visibility).await?))
}

/// Returns the configured policy and the key of a request, which names the key or its hash.
pub(crate) async fn policy_and_key<'r>(
    service: &Service,
    active: &ActivePolicies,
    request: &'r Request<'r>,
) -> Result<(&'r str, Key<'r>), Refusal> {
    match request.policy_and_hash()? {
        None => request.policy_and_key(),
        Some((policy, hash)) => Ok((policy, service.key_of_hash(active, policy, hash).await?)),
    }
}

/// Returns the state of a key under a policy.
pub(crate) async fn key_state(
    service: &Service,
    name: &str,
    key: &Key<'_>,
    visibility: KeyVisibility,
) -> Result<KeyState, Refusal> {
    let active = service.active_policies();
    let configured = active.find(name)?;
    let policy = &configured.policy;
    if configured.hide_keys {
        service.remember_inspected(key);
    }
    let inspection = service.store().store().inspect(policy, key).await?;
    let active_override = service.store().store().override_of(policy, key).await?;
    let rule = active_override.as_ref().map(|active| active.r#override.rule());
    let applied = applied_policy(policy, rule);
    let is_banned = matches!(rule, Some(OverrideRule::Ban));
    let limits = applied.limits().iter().enumerate().map(|(index, limit)| {
        let in_use = inspection.as_ref().and_then(|inspection| inspection.limits.get(index));
        limit_state(applied, *limit, in_use, is_banned)
    });
    Ok(KeyState {
        policy: name.to_owned(),
        found: inspection.is_some(),
        label: service.key_labeller().label(key, configured.hide_keys, visibility).label,
        newest_charge_us: inspection.as_ref().map(|inspection| inspection.newest_charge.as_micros()),
        now_us: service.clock().now().as_micros(),
        algorithm: applied.algorithm().to_string(),
        mode: policy.mode().to_string(),
        r#override: active_override.as_ref().map(OverrideState::from),
        limits: limits.collect(),
        reservations: inspection.iter().flat_map(|inspection| &inspection.reservations).map(Into::into).collect(),
    })
}

/// Returns the policy whose limits apply to a key with an override, or with none.
pub(crate) fn applied_policy<'p>(policy: &'p Policy, rule: Option<&'p OverrideRule>) -> &'p Policy {
    match rule {
        Some(OverrideRule::Limits(limits)) => limits,
        _ => policy,
    }
}

/// Returns the state of a limit. Without a stored state, no units are in use.
fn limit_state(policy: &Policy, limit: Limit, in_use: Option<&InUse>, is_banned: bool) -> LimitState {
    let capacity = policy.capacity(limit);
    let used = in_use.map_or(0, |in_use| in_use.used);
    let entry = |entry: &Entry| ChargeEntry {
        first_us: entry.first.as_micros(),
        last_us: entry.last.as_micros(),
        units: entry.units,
    };
    LimitState {
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
