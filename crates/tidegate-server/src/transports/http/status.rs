//! How the service is: health, readiness, metrics, and the policies in force.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{
        HeaderMap, StatusCode, Uri,
        header::{CONTENT_TYPE, VARY},
    },
    response::IntoResponse,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{problem::Problem, words};
use crate::{access::Access, config::Configured, degraded::State as DegradedState, door::House, metrics::Exposition};

/// Whether the service takes requests, and what is not as it should be.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Readiness {
    /// Whether it takes requests.
    ready: bool,
    /// `ok`, or `degraded` if there is a degraded state.
    status: &'static str,
    /// The current degraded states.
    degraded: Vec<DegradedState>,
    /// `memory` or `redis`.
    store: &'static str,
    /// Whether the store answers. If not, policies say what is decided.
    store_answers: bool,
    /// What was wrong with the configuration at the last reload; null if it is in force.
    configuration_error: Option<String>,
}

/// A policy in force.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShownPolicy {
    /// Its name.
    name: String,
    /// Its limits.
    #[schema(example = json!(["60/1m"]))]
    limits: Vec<String>,
    /// How units in use are counted.
    #[schema(example = "sliding_log")]
    algorithm: String,
    /// `enforce` or `shadow`.
    mode: &'static str,
    /// Where `/v1/forward` finds the key.
    key: String,
    /// What is answered when the store fails.
    on_store_failure: String,
    /// Whether keys are shown as hashes only.
    hide_keys: bool,
    /// All that in sentences.
    words: String,
    /// What operations cost.
    operations: std::collections::BTreeMap<String, u64>,
}

/// All policies in force.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShownPolicies {
    /// By name.
    policies: Vec<ShownPolicy>,
}

/// Says that the process lives.
#[utoipa::path(get, path = "/healthz", tag = "status", responses((status = 200, description = "It lives", body = String, content_type = "text/plain")))]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Says whether the service takes requests.
#[utoipa::path(
    get, path = "/readyz", tag = "status",
    responses((status = 200, description = "It takes requests", body = Readiness), (status = 503, description = "It is stopping", body = Readiness))
)]
pub(super) async fn readyz(
    State(house): State<Arc<House>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<impl IntoResponse, Problem> {
    super::guard::origin(&house.settings, &headers, &uri)?;
    let ready = !house.stop.is_cancelled();
    let degraded = house.service.look_for_degraded_states();
    let store = house.service.store_report();
    let readiness = Readiness {
        ready,
        status: if degraded.is_empty() { "ok" } else { "degraded" },
        degraded,
        store: store.kind,
        store_answers: store.answers,
        configuration_error: house.service.refused_file(),
    };
    Ok((if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, Json(readiness)))
}

/// What is counted, for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "status", responses((status = 200, description = "In the text format of Prometheus, or in OpenMetrics if `Accept` prefers that", content((String = "text/plain"), (String = "application/openmetrics-text")))))]
pub(super) async fn metrics(
    State(house): State<Arc<House>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<impl IntoResponse, Problem> {
    super::admit(&house, &headers, &uri, Access::Usage)?;
    house.service.look_for_degraded_states();
    let format = Exposition::accepted(&headers);
    let text = house.service.metrics().text(format, house.service.insight().onlookers());
    // The format depends on the request.
    Ok(([(CONTENT_TYPE, format.media_type()), (VARY, "accept")], text))
}

/// The policies in force.
#[utoipa::path(
    get, path = "/v1/policies", tag = "status",
    responses((status = 200, description = "The policies in force", body = ShownPolicies), super::openapi::Problems)
)]
pub(super) async fn policies(
    State(house): State<Arc<House>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Json<ShownPolicies>, Problem> {
    super::admit(&house, &headers, &uri, Access::Usage)?;
    let live = house.service.live();
    let policies = live.policies.iter().map(|(name, configured)| shown(name, configured)).collect();
    Ok(Json(ShownPolicies { policies }))
}

fn shown(name: &str, configured: &Configured) -> ShownPolicy {
    let policy = &configured.policy;
    ShownPolicy {
        name: name.to_owned(),
        limits: policy.limits().iter().map(ToString::to_string).collect(),
        algorithm: policy.algorithm().to_string(),
        mode: policy.mode().as_str(),
        key: configured.key.to_string(),
        on_store_failure: policy.on_store_failure().to_string(),
        hide_keys: configured.hide_keys,
        words: words::of(policy),
        operations: configured.operations().map(|(name, operation)| (name.to_owned(), operation.cost.get())).collect(),
    }
}
