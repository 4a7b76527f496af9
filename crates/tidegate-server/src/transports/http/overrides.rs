//! Other limits, bans and exemptions for single keys.

use std::{borrow::Cow, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{RawQuery, Request as HttpRequest, State},
    http::{HeaderMap, StatusCode},
};
use serde::{Deserialize, Serialize};
use tidegate::{ActiveOverride, Algorithm, Limit, Override, OverrideRule, Policy, Timestamp};
use utoipa::ToSchema;

use super::{
    guest::Guest,
    problem::Problem,
    query,
    request::{KeyForm, Request},
};
use crate::{
    access::Access,
    door::House,
    insight::Label,
    service::{Refusal, Who},
};

/// The latest time that anything can end.
const LATEST_MS: u64 = 9_000_000_000_000;

/// What holds for a key in place of its policy's limits.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShownOverride {
    /// `limits`, `ban` or `exempt`.
    #[schema(value_type = OverrideKind)]
    kind: &'static str,
    /// The limits, if it is those.
    limits: Vec<String>,
    /// How they are counted; null otherwise.
    algorithm: Option<String>,
    /// Since when, in milliseconds since the epoch.
    since_ms: u64,
    /// Until when; null is for good.
    until_ms: Option<u64>,
    /// Why, if somebody said.
    note: String,
}

/// What an override says.
#[derive(ToSchema, Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OverrideKind {
    /// Other limits.
    Limits,
    /// Nothing fits.
    Ban,
    /// Everything fits, and nothing is counted.
    Exempt,
}

/// What an override takes: a kind, and one of `for`, `until_ms` and `for_good`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OverrideRequest<'a> {
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "public-api")]
    policy: Cow<'a, str>,
    #[serde(borrow)]
    #[schema(value_type = super::openapi::KeySchema)]
    key: KeyForm<'a>,
    kind: OverrideKind,
    /// The other limits.
    #[schema(max_items = 8, example = json!(["600/1m"]))]
    limits: Option<Vec<String>>,
    /// How they are counted; as the policy does if unsaid.
    algorithm: Option<String>,
    /// For how long from now.
    #[schema(example = "2h")]
    r#for: Option<String>,
    /// Or until when, in milliseconds since the epoch.
    #[schema(maximum = 9_000_000_000_000_u64)]
    until_ms: Option<u64>,
    /// Or for good.
    for_good: Option<bool>,
    /// Why: 256 bytes at the most.
    #[schema(max_length = 256)]
    note: Option<String>,
}

/// What was put in force.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Overrode {
    r#override: ShownOverride,
    /// Whether another was in force before.
    replaced: bool,
}

/// What lifting came to.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Lifted {
    /// Whether there was one to lift.
    lifted: bool,
}

/// Overrides in force.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShownOverrides {
    overrides: Vec<OfKey>,
}

/// An override of one key.
#[derive(Debug, Serialize, ToSchema)]
struct OfKey {
    policy: String,
    #[serde(flatten)]
    who: Label,
    r#override: ShownOverride,
}

impl From<&ActiveOverride> for ShownOverride {
    fn from(overridden: &ActiveOverride) -> Self {
        let by = &overridden.by;
        let (kind, policy) = match by.rule() {
            OverrideRule::Limits(policy) => ("limits", Some(policy)),
            OverrideRule::Ban => ("ban", None),
            OverrideRule::Exempt => ("exempt", None),
        };
        Self {
            kind,
            limits: policy.map_or_else(Vec::new, |policy| policy.limits().iter().map(ToString::to_string).collect()),
            algorithm: policy.map(|policy| policy.algorithm().to_string()),
            since_ms: overridden.since.as_micros() / 1_000,
            until_ms: by.end().map(|end| end.as_micros().div_ceil(1_000)),
            note: by.note().to_owned(),
        }
    }
}

/// Puts other limits, a ban or an exemption of one key in force, in place of what was there before.
#[utoipa::path(
    post, path = "/v1/override", tag = "admin", request_body = OverrideRequest,
    responses((status = 200, description = "In force", body = Overrode), super::openapi::Problems)
)]
pub(super) async fn put(
    State(house): State<Arc<House>>,
    guest: Guest,
    request: HttpRequest,
) -> Result<Json<Overrode>, Problem> {
    let body = super::body(&house, Access::Admin, request).await?;
    let asked: OverrideRequest<'_> = serde_json::from_slice(&body)
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, "", format!("the body is no override: {error}")))?;
    let live = house.service.live();
    let policy = &live.find(&asked.policy)?.policy;
    let by = asked.says(policy, house.service.clock().now())?;
    let key = asked.key.key()?;
    let who = Who { address: guest.address };
    let (overridden, replaced) = house.service.set_override(&live, &asked.policy, &key, by, who).await?;
    Ok(Json(Overrode { r#override: ShownOverride::from(&overridden), replaced }))
}

/// Lifts the override of a key.
#[utoipa::path(
    post, path = "/v1/override/lift", tag = "admin", request_body = super::openapi::ResetRequest,
    responses((status = 200, description = "Lifted, if there was one", body = Lifted), super::openapi::Problems)
)]
pub(super) async fn lift(
    State(house): State<Arc<House>>,
    guest: Guest,
    request: HttpRequest,
) -> Result<Json<Lifted>, Problem> {
    let body = super::body(&house, Access::Admin, request).await?;
    let request: Request<'_> = super::understand(&house, &body)?;
    let (policy, key) = request.policy_and_key()?;
    let live = house.service.live();
    let lifted = house.service.remove_override(&live, policy, &key, Who { address: guest.address }).await?;
    Ok(Json(Lifted { lifted }))
}

/// The overrides in force, of one policy or of all.
#[utoipa::path(
    get, path = "/v1/overrides", tag = "admin",
    params(("policy" = Option<String>, Query, description = "Only those of this policy")),
    responses((status = 200, description = "Overrides in force", body = ShownOverrides), super::openapi::Problems)
)]
pub(super) async fn list(
    State(house): State<Arc<House>>,
    guest: Guest,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Json<ShownOverrides>, Problem> {
    guest.needs(&house, &headers, Access::Admin)?;
    let query = query::read(query.as_deref().unwrap_or(""), &["policy"])?;
    let live = house.service.live();
    let policies: Vec<&str> = match query.only("policy")? {
        Some(policy) => vec![policy],
        None => live.policies.iter().map(|(name, _)| name).collect(),
    };
    let mut overrides = Vec::new();
    for name in policies {
        let configured = live.find(name)?;
        for overridden in house.service.overrides(&configured.policy).await? {
            let labeller = &house.service.insight().labeller;
            let who = labeller.label(&overridden.key, configured.hide_keys, guest.eyes);
            overrides.push(OfKey { policy: name.to_owned(), who, r#override: ShownOverride::from(&overridden) });
        }
    }
    Ok(Json(ShownOverrides { overrides }))
}

impl OverrideRequest<'_> {
    /// What it puts in force under `policy`.
    fn says(&self, policy: &Policy, now: Timestamp) -> Result<Override, Refusal> {
        let is_limits = matches!(self.kind, OverrideKind::Limits);
        if !is_limits && (self.limits.is_some() || self.algorithm.is_some()) {
            return Err(Refusal::malformed("limits", "only an override of kind `limits` has limits and an algorithm"));
        }
        let by = match self.kind {
            OverrideKind::Ban => Override::ban(),
            OverrideKind::Exempt => Override::exempt(),
            OverrideKind::Limits => Override::limits(self.limits(policy)?),
        };
        let by = match (&self.r#for, self.until_ms, self.for_good) {
            (None, None, Some(true)) => by,
            (Some(text), None, None | Some(false)) => {
                let length = tidegate::parse_duration(text).ok_or_else(|| {
                    let message = format!("`{text}` is no length of time: write it as 30m, 2h or 7d");
                    Refusal::malformed("for", message)
                })?;
                by.until(now.after(length.min(Duration::from_millis(LATEST_MS))))
            }
            (None, Some(until_ms), None | Some(false)) if until_ms > LATEST_MS => {
                let message = format!("`until_ms` is too far off: use at most {LATEST_MS}, or `for_good: true`");
                return Err(Refusal::malformed("until_ms", message));
            }
            (None, Some(until_ms), None | Some(false)) => by.until(Timestamp::from_micros(until_ms * 1_000)),
            _ => {
                let message = "until when? Give one of `for` (such as \"2h\"), `until_ms` and `for_good: true`";
                return Err(Refusal::malformed("for", message));
            }
        };
        by.with_note(self.note.as_deref().unwrap_or("").trim()).map_err(|error| Refusal::malformed("note", error))
    }

    fn limits(&self, policy: &Policy) -> Result<Policy, Refusal> {
        let Some(limits) = &self.limits else {
            return Err(Refusal::malformed("limits", "which limits? Give `limits`, such as [\"600/1m\"]"));
        };
        let read = |text: &String| text.parse().map_err(|error| Refusal::malformed("limits", error));
        // No more than can be right are read.
        let limits: Vec<Limit> = limits.iter().take(9).map(read).collect::<Result<_, _>>()?;
        let algorithm = match &self.algorithm {
            Some(text) => text.parse().map_err(|error| Refusal::malformed("algorithm", error))?,
            // A burst was meant for the limit that is replaced.
            None => match policy.algorithm() {
                Algorithm::Gcra(_) => Algorithm::Gcra(None),
                other => other,
            },
        };
        let limits = Policy::unnamed(limits).map_err(|error| Refusal::malformed("limits", error))?;
        Ok(limits.with_algorithm(algorithm))
    }
}
