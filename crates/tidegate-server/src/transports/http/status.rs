//! Health, readiness, metrics and the active policies.

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

use super::{policy_text, problem::Problem};
use crate::{auth::Access, config::ConfiguredPolicy, context::Context, metrics::Exposition, service::DegradedState};

/// Whether the service accepts requests, and its degraded states.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Readiness {
    /// Whether it accepts requests.
    ready: bool,
    /// `ok`, or `degraded` if there is a degraded state.
    status: &'static str,
    /// The current degraded states.
    degraded: Vec<DegradedState>,
    /// `memory` or `redis`.
    store: &'static str,
    /// Whether the store answers. If not, the policies decide what happens to requests.
    store_answers: bool,
    /// The error in the configuration at the last reload; null if the file is active.
    configuration_error: Option<String>,
}

/// An active policy.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PolicyInfo {
    /// Its name.
    name: String,
    /// Its limits.
    #[schema(example = json!(["60/1m"]))]
    limits: Vec<String>,
    /// The algorithm.
    #[schema(example = "sliding_log")]
    algorithm: String,
    /// `enforce` or `shadow`.
    mode: &'static str,
    /// The policy that this shadow policy may replace; null if there is none.
    candidate_for: Option<String>,
    /// The source of the key for `/v1/forward`.
    key: String,
    /// What happens to requests when the store fails.
    on_store_failure: String,
    /// Whether keys are shown as hashes only.
    hide_keys: bool,
    /// The policy in sentences.
    words: String,
    /// The costs of operations.
    operations: std::collections::BTreeMap<String, u64>,
}

/// All active policies.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PolicyList {
    /// The policies, sorted by name.
    policies: Vec<PolicyInfo>,
}

/// Returns 200 while the process runs.
#[utoipa::path(get, path = "/healthz", tag = "status", responses((status = 200, description = "The process runs", body = String, content_type = "text/plain")))]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Returns whether the service accepts requests.
#[utoipa::path(
    get, path = "/readyz", tag = "status",
    responses((status = 200, description = "It accepts requests", body = Readiness), (status = 503, description = "It is stopping", body = Readiness))
)]
pub(super) async fn readyz(
    State(context): State<Arc<Context>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<impl IntoResponse, Problem> {
    super::guard::origin(&context.settings, &headers, &uri)?;
    let ready = !context.stop.is_cancelled();
    let degraded = context.service.check_degraded_states();
    let store = context.service.store_report();
    let readiness = Readiness {
        ready,
        status: if degraded.is_empty() { "ok" } else { "degraded" },
        degraded,
        store: store.kind,
        store_answers: store.answers,
        configuration_error: context.service.refused_file(),
    };
    Ok((if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, Json(readiness)))
}

/// Returns the metrics for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "status", responses((status = 200, description = "The text format of Prometheus, or OpenMetrics if `Accept` prefers it", content((String = "text/plain"), (String = "application/openmetrics-text")))))]
pub(super) async fn metrics(
    State(context): State<Arc<Context>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<impl IntoResponse, Problem> {
    super::admit(&context, &headers, &uri, Access::Usage)?;
    context.service.check_degraded_states();
    context.service.end_holds();
    let format = Exposition::accepted(&headers);
    let text = context.service.metrics().text(format);
    // The format depends on the request.
    Ok(([(CONTENT_TYPE, format.media_type()), (VARY, "accept")], text))
}

/// Returns the active policies.
#[utoipa::path(
    get, path = "/v1/policies", tag = "status",
    responses((status = 200, description = "The active policies", body = PolicyList), super::openapi::Problems)
)]
pub(super) async fn policies(
    State(context): State<Arc<Context>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Json<PolicyList>, Problem> {
    super::admit(&context, &headers, &uri, Access::Usage)?;
    let active = context.service.active_policies();
    let policies = active.policies.iter().map(|(name, configured)| policy_info(name, configured)).collect();
    Ok(Json(PolicyList { policies }))
}

fn policy_info(name: &str, configured: &ConfiguredPolicy) -> PolicyInfo {
    let policy = &configured.policy;
    PolicyInfo {
        name: name.to_owned(),
        limits: policy.limits().iter().map(ToString::to_string).collect(),
        algorithm: policy.algorithm().to_string(),
        mode: policy.mode().as_str(),
        candidate_for: configured.candidate_for.clone(),
        key: configured.key.to_string(),
        on_store_failure: policy.on_store_failure().to_string(),
        hide_keys: configured.hide_keys,
        words: policy_text::describe(policy),
        operations: configured.operations().map(|(name, operation)| (name.to_owned(), operation.cost.get())).collect(),
    }
}
