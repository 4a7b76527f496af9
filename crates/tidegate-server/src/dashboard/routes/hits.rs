//! The keys that a policy denies most, and those near its limit.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{RawQuery, State},
    http::HeaderMap,
};
use futures_util::future::join_all;
use tidegate::Key;

use super::{
    super::{
        DeniedKey, KeysAre, NearLimitKey, PolicyHits,
        data::{COUNTERS, Dashboard, DeniedCount},
    },
    fullest_limit::FullestLimit,
};
use crate::{
    auth::Access,
    config::ConfiguredPolicy,
    context::Context,
    metrics::is_near_limit,
    service::{KeyVisibility, Refusal, Service},
    transports::{
        decision_body::millis,
        http::{Caller, Problem, openapi, query::Query},
    },
};

/// Maximum number of keys in each list.
const MAX_KEYS: usize = 20;

/// Number of keys that are inspected for the list of keys near the limit.
const MAX_CANDIDATES: usize = 64;

/// Returns the keys that a policy denies most, and those near its limit.
#[utoipa::path(
    get, path = "/v1/hits", tag = "dashboard",
    params(("policy" = String, Query, description = "The policy")),
    responses((status = 200, description = "The keys", body = PolicyHits), openapi::Problems)
)]
pub(super) async fn hits(
    State(context): State<Arc<Context>>,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    caller: Caller,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Json<PolicyHits>, Problem> {
    caller.require(&context, &headers, Access::Usage)?;
    let query = Query::parse(query.as_deref(), &["policy"])?;
    Ok(Json(PolicyHits::new(&context.service, &dashboard, query.required("policy")?, caller.visibility).await?))
}

impl PolicyHits {
    pub(super) async fn new(
        service: &Service,
        dashboard: &Dashboard,
        policy: &str,
        visibility: KeyVisibility,
    ) -> Result<Self, Refusal> {
        let active = service.active_policies();
        let configured = active.find(policy)?;
        let hits = dashboard.hits(policy);
        let denied = hits.most_denied(MAX_KEYS);
        let label = |key: &Key<'_>| service.key_labeller().label(key, configured.hide_keys, visibility);
        let candidates = hits.candidates(MAX_CANDIDATES);
        let with_limit = async |key: &Key<'static>| {
            let fullest = FullestLimit::of(service, &configured.policy, key).await;
            (key.clone(), fullest)
        };
        let mut near: Vec<(Key<'static>, FullestLimit)> = join_all(candidates.iter().map(with_limit)).await;
        near.retain(|(_, fullest)| is_near_limit(fullest.used, fullest.capacity));
        // The keys with the largest share of the capacity in use come first.
        near.sort_by(|(a_key, a), (b_key, b)| {
            b.share().cmp(&a.share()).then_with(|| a_key.as_bytes().cmp(b_key.as_bytes()))
        });
        near.truncate(MAX_KEYS);
        let nearest = |(key, fullest): &(Key<'static>, FullestLimit)| NearLimitKey {
            label: label(key),
            limit: fullest.limit.to_string(),
            used: fullest.used,
            capacity: fullest.capacity,
            remaining: fullest.remaining,
            retry_after_ms: fullest.retry_after.map(millis),
            reset_after_ms: millis(fullest.reset_after),
        };
        Ok(Self {
            policy: policy.to_owned(),
            now_ms: service.now_ms(),
            since_ms: dashboard.hits_since() * 1_000,
            counters: COUNTERS,
            denials: denied.denials,
            sampled: denied.sampled,
            error_at_most: denied.error,
            keys: KeysAre::new(configured, visibility),
            hardest: denied.keys.iter().map(|one| DeniedKey::new(service, configured, one, visibility)).collect(),
            nearest: near.iter().map(nearest).collect(),
        })
    }
}

impl KeysAre {
    pub(super) fn new(configured: &ConfiguredPolicy, visibility: KeyVisibility) -> Self {
        match (visibility, configured.hide_keys) {
            (KeyVisibility::Hidden, _) => Self::Hidden,
            (KeyVisibility::Visible, true) => Self::Hashed,
            (KeyVisibility::Visible, false) => Self::Plain,
        }
    }
}

impl DeniedKey {
    pub(super) fn new(
        service: &Service,
        configured: &ConfiguredPolicy,
        denied: &DeniedCount,
        visibility: KeyVisibility,
    ) -> Self {
        let DeniedCount { key, count, recent, cause } = denied;
        Self {
            label: service.key_labeller().label(key, configured.hide_keys, visibility),
            denials: count.max,
            error: count.error,
            recent: *recent,
            reason: cause.map(|cause| cause.reason.as_str().to_owned()),
            limit: cause.map(|cause| cause.limit.to_string()),
        }
    }
}
