//! Overrides of single keys: other limits, bans and exemptions.

use std::{borrow::Cow, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{RawQuery, Request as HttpRequest, State},
    http::{HeaderMap, StatusCode},
};
use serde::Deserialize;
use tidegate::{Algorithm, Override, Policy, Timestamp};
use utoipa::ToSchema;

use super::{
    admin::policy_and_key,
    api::{KeyOverride, OverrideKind, OverrideList, OverrideState, RemoveOverrideResponse, SetOverrideResponse},
    caller::Caller,
    problem::Problem,
    query::{Query, wrong},
    request::{KeyForm, Request, read_algorithm, read_limits},
};
use crate::{
    auth::Access,
    context::Context,
    service::{KeyText, Refusal},
};

/// The latest end of an override.
const LATEST_MS: u64 = 9_000_000_000_000;

/// The request to set an override: a kind, and one of `for`, `until_ms` and `permanent`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OverrideRequest<'a> {
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "public-api")]
    policy: Cow<'a, str>,
    #[serde(borrow, default)]
    #[schema(value_type = Option<KeyText>)]
    key: Option<KeyForm<'a>>,
    /// The hash of the key, instead of `key`, if the policy hides its keys.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>, example = "#0123456789abcdef")]
    hash: Option<Cow<'a, str>>,
    kind: OverrideKind,
    /// The other limits.
    #[schema(value_type = Option<Vec<String>>, max_items = 8, example = json!(["600/1m"]))]
    #[serde(borrow, default)]
    limits: Option<Vec<Cow<'a, str>>>,
    /// The algorithm of these limits; by default that of the policy.
    algorithm: Option<String>,
    /// The duration from now on.
    #[schema(example = "2h")]
    r#for: Option<String>,
    /// Or the end, in milliseconds since the epoch.
    #[schema(maximum = 9_000_000_000_000_u64)]
    until_ms: Option<u64>,
    /// Or true for a permanent override.
    permanent: Option<bool>,
    /// The reason: at most 256 bytes.
    #[schema(max_length = 256)]
    note: Option<String>,
}

/// Sets other limits, a ban or an exemption for one key. It replaces an earlier override.
#[utoipa::path(
    post, path = "/v1/override", tag = "admin", request_body = OverrideRequest,
    responses((status = 200, description = "The override is active", body = SetOverrideResponse), super::openapi::Problems)
)]
pub(super) async fn set(
    State(context): State<Arc<Context>>,
    caller: Caller,
    request: HttpRequest,
) -> Result<Json<SetOverrideResponse>, Problem> {
    let body = super::body(&context, Access::Admin, request).await?;
    let request: OverrideRequest<'_> = serde_json::from_slice(&body).map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, "", format!("the body is not a valid override: {error}"))
    })?;
    let service = &context.service;
    let active = service.active_policies();
    let by = request.parse(&active.find(&request.policy)?.policy, service.clock().now())?;
    let key = match (&request.key, &request.hash) {
        (Some(key), None) => key.key()?,
        (None, Some(hash)) => service.key_of_hash(&active, &request.policy, hash).await?,
        (None, None) => return Err(wrong("key", "`key` is missing: set it to a text or a list of texts")),
        (Some(_), Some(_)) => return Err(wrong("hash", "`key` and `hash` exclude each other: use one")),
    };
    let (stored, replaced) = service.set_override(&active, &request.policy, &key, by, caller.actor()).await?;
    Ok(Json(SetOverrideResponse { r#override: OverrideState::from(&stored), replaced }))
}

/// Removes the other limits, the ban or the exemption of a key.
#[utoipa::path(
    post, path = "/v1/override/lift", tag = "admin", request_body = super::openapi::ResetRequest,
    responses((status = 200, description = "Removed, if there was one", body = RemoveOverrideResponse), super::openapi::Problems)
)]
pub(super) async fn remove(
    State(context): State<Arc<Context>>,
    caller: Caller,
    request: HttpRequest,
) -> Result<Json<RemoveOverrideResponse>, Problem> {
    let body = super::body(&context, Access::Admin, request).await?;
    let request = Request::read(&body)?;
    let active = context.service.active_policies();
    let (policy, key) = policy_and_key(&context.service, &active, &request).await?;
    let lifted = context.service.remove_override(&active, policy, &key, caller.actor()).await?;
    Ok(Json(RemoveOverrideResponse { lifted }))
}

/// Lists the active overrides of one policy or of all.
#[utoipa::path(
    get, path = "/v1/overrides", tag = "admin",
    params(("policy" = Option<String>, Query, description = "Only those of this policy")),
    responses((status = 200, description = "The active overrides", body = OverrideList), super::openapi::Problems)
)]
pub(super) async fn list(
    State(context): State<Arc<Context>>,
    caller: Caller,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Json<OverrideList>, Problem> {
    caller.require(&context, &headers, Access::Admin)?;
    let query = Query::parse(query.as_deref(), &["policy"])?;
    let active = context.service.active_policies();
    let policies: Vec<&str> = match query.only("policy")? {
        Some(policy) => vec![policy],
        None => active.policies.iter().map(|(name, _)| name).collect(),
    };
    let mut overrides = Vec::new();
    for name in policies {
        let configured = active.find(name)?;
        for stored in context.service.overrides(&configured.policy).await? {
            let labeller = context.service.key_labeller();
            let label = labeller.label(&stored.key, configured.hide_keys, caller.visibility);
            overrides.push(KeyOverride { policy: name.to_owned(), label, r#override: OverrideState::from(&stored) });
        }
    }
    Ok(Json(OverrideList { overrides }))
}

impl OverrideRequest<'_> {
    /// Returns the override of a key under `policy`.
    fn parse(&self, policy: &Policy, now: Timestamp) -> Result<Override, Refusal> {
        if self.kind != OverrideKind::Limits && (self.limits.is_some() || self.algorithm.is_some()) {
            return Err(Refusal::malformed("limits", "only an override of kind `limits` has limits and an algorithm"));
        }
        let by = match self.kind {
            OverrideKind::Ban => Override::ban(),
            OverrideKind::Exempt => Override::exempt(),
            OverrideKind::Limits => Override::limits(self.limits(policy)?),
        };
        let by = match (&self.r#for, self.until_ms, self.permanent) {
            (None, None, Some(true)) => by,
            (Some(text), None, None | Some(false)) => {
                let length = tidegate::parse_duration(text).ok_or_else(|| {
                    Refusal::malformed("for", format!("`{text}` is not a duration: write it as 30m, 2h or 7d"))
                })?;
                by.until(now.after(length.min(Duration::from_millis(LATEST_MS))))
            }
            (None, Some(until_ms), None | Some(false)) if until_ms > LATEST_MS => {
                let message = format!("`until_ms` is too large: use at most {LATEST_MS}, or `permanent: true`");
                return Err(Refusal::malformed("until_ms", message));
            }
            (None, Some(until_ms), None | Some(false)) => by.until(Timestamp::from_micros(until_ms * 1_000)),
            _ => {
                let message = "the end is missing: set one of `for` (such as \"2h\"), `until_ms` and `permanent: true`";
                return Err(Refusal::malformed("for", message));
            }
        };
        by.with_note(self.note.as_deref().unwrap_or("").trim()).map_err(|error| Refusal::malformed("note", error))
    }

    fn limits(&self, policy: &Policy) -> Result<Policy, Refusal> {
        let Some(limits) = &self.limits else {
            return Err(Refusal::malformed("limits", "`limits` is missing: set it to a list such as [\"600/1m\"]"));
        };
        let algorithm = match (&self.algorithm, policy.algorithm()) {
            (Some(text), _) => read_algorithm(Some(text))?,
            // A burst belongs to the limit that is replaced.
            (None, Algorithm::Gcra(_)) => Algorithm::Gcra(None),
            (None, other) => other,
        };
        let limits = Policy::unnamed(read_limits(limits)?).map_err(|error| Refusal::malformed("limits", error))?;
        Ok(limits.with_algorithm(algorithm))
    }
}
