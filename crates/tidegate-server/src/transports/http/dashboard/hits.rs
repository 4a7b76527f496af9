//! Whom a policy denies most, and who is near its limit.

use std::sync::Arc;

use axum::{
    Json,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode},
};
use futures_util::future::join_all;
use serde::Serialize;
use tidegate::{Cost, Decision, Key, Op};
use utoipa::ToSchema;

use super::super::{guest::Guest, problem::Problem, query};
use crate::{
    access::Access,
    door::House,
    insight::{COUNTERS, Eyes, Label},
    service::{Refusal, Service},
    transports::body::millis,
};

/// How many keys are shown.
const SHOWN: usize = 20;

/// How many are looked at for that.
const LOOKED_AT: usize = 64;

/// Whom a policy hits.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownHits {
    policy: String,
    /// The time, in milliseconds since the epoch.
    now_ms: u64,
    /// Since when denials are counted: five to ten minutes ago, or the start of the service.
    since_ms: u64,
    /// How many keys are followed.
    counters: usize,
    /// Denials of all keys; of a policy in shadow mode what it would have denied.
    denials: u64,
    /// Whether some counts are estimated: above 10,000 denials a second.
    sampled: bool,
    /// The most by which a count can be too high; a key that is not listed was denied no more than this and the last that is.
    error_at_most: u64,
    /// `plain`; `hashed`, because the policy wants it; or `hidden` from whoever asks.
    #[schema(value_type = KeysAre)]
    keys: &'static str,
    /// The keys denied most, those first.
    hardest: Vec<HardHit>,
    /// The keys nearest the limit now, those first, of those that used four fifths of it or more since then.
    nearest: Vec<NearLimit>,
}

/// How keys are shown.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum KeysAre {
    Plain,
    Hashed,
    Hidden,
}

/// A key that was denied.
#[derive(Debug, Serialize, ToSchema)]
struct HardHit {
    #[serde(flatten)]
    who: Label,
    /// How often, at the most.
    denials: u64,
    /// By how much that can be too high.
    error: u64,
}

/// A key that is near its limit.
#[derive(Debug, Serialize, ToSchema)]
struct NearLimit {
    #[serde(flatten)]
    who: Label,
    /// The limit that binds.
    limit: String,
    used: u64,
    capacity: u64,
    remaining: u64,
    /// How long until a request would fit; null if one does, or none ever will.
    retry_after_ms: Option<u64>,
    /// How long until nothing is in use.
    reset_after_ms: u64,
}

/// Whom a policy denies most, and who is near its limit.
#[utoipa::path(
    get, path = "/v1/hits", tag = "dashboard",
    params(("policy" = String, Query, description = "The policy")),
    responses((status = 200, description = "Whom it hits", body = ShownHits), super::super::openapi::Problems)
)]
pub(crate) async fn hits(
    State(house): State<Arc<House>>,
    guest: Guest,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Json<ShownHits>, Problem> {
    guest.needs(&house, &headers, Access::Usage)?;
    let query = query::read(query.as_deref().unwrap_or(""), &["policy"])?;
    let policy = query
        .only("policy")?
        .ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "policy", "the query lacks `policy`: ask `?policy=…`"))?;
    Ok(Json(ShownHits::new(&house.service, policy, guest.eyes).await?))
}

impl ShownHits {
    pub(super) async fn new(service: &Service, policy: &str, eyes: Eyes) -> Result<Self, Refusal> {
        let live = service.live();
        let configured = live.find(policy)?;
        let insight = service.insight();
        let hits = live.hits(configured);
        let hardest = hits.hardest(SHOWN);
        let label = |key: &Key<'_>| insight.labeller.label(key, configured.hide_keys, eyes);
        let candidates = hits.candidates(LOOKED_AT);
        let peek = async |key: &Key<'static>| {
            let decision = service.store().decide(Op::Peek, &configured.policy, key, Cost::ONE).await;
            (key.clone(), decision)
        };
        let mut near: Vec<(Key<'static>, Decision)> = join_all(candidates.iter().map(peek)).await;
        // What the store does not know of, or can't tell now, is not near anything.
        near.retain(|(_, decision)| decision.used() > 0 && !decision.is_degraded());
        // The fullest first: used by capacity, without a fraction.
        let share =
            |decision: &Decision| u128::from(decision.used()) * (1 << 40) / u128::from(decision.capacity().max(1));
        near.sort_by(|a, b| share(&b.1).cmp(&share(&a.1)).then_with(|| a.0.as_bytes().cmp(b.0.as_bytes())));
        near.truncate(SHOWN);
        let nearest = |(key, decision): &(Key<'static>, Decision)| NearLimit {
            who: label(key),
            limit: decision.limit().to_string(),
            used: decision.used(),
            capacity: decision.capacity(),
            remaining: decision.remaining(),
            retry_after_ms: decision.retry_after().map(millis),
            reset_after_ms: millis(decision.reset_after()),
        };
        Ok(Self {
            policy: policy.to_owned(),
            now_ms: service.now_ms(),
            since_ms: insight.hits_since() * 1_000,
            counters: COUNTERS,
            denials: hardest.denials,
            sampled: hardest.sampled,
            error_at_most: hardest.error,
            keys: match (eyes, configured.hide_keys) {
                (Eyes::Shut, _) => "hidden",
                (Eyes::Open, true) => "hashed",
                (Eyes::Open, false) => "plain",
            },
            hardest: hardest
                .keys
                .iter()
                .map(|(key, count)| HardHit { who: label(key), denials: count.most, error: count.error })
                .collect(),
            nearest: near.iter().map(nearest).collect(),
        })
    }
}
