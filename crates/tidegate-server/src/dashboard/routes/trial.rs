//! Decisions of the page that tries limits. They are real, but nothing else counts them: they have a store of their own, and neither
//! the metrics nor the charts contain them.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Request as HttpRequest, State},
    http::StatusCode,
};
use serde::Deserialize;
use tidegate::{Algorithm, Cost, Key, Limit, Policy};
use utoipa::ToSchema;

use super::super::data::Dashboard;
use crate::{
    auth::Access,
    context::Context,
    service::{PolicyDecision, Refusal, ResolvedPolicy},
    transports::{
        decision_body::DecisionBody,
        http::{Caller, Problem, openapi, read_json},
    },
};

/// A request under a limit that is tried.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TrialRequest {
    #[schema(min_length = 1, max_length = 1024)]
    key: String,
    #[schema(example = "10/5s")]
    limit: String,
    #[schema(example = "sliding_log")]
    algorithm: String,
}

/// Decides a request under a limit that is tried. It is not counted anywhere, and a denial has the status 200.
#[utoipa::path(
    post, path = "/v1/try", tag = "dashboard", request_body = TrialRequest,
    responses((status = 200, description = "The decision", body = DecisionBody), openapi::Problems)
)]
pub(super) async fn decide(
    State(context): State<Arc<Context>>,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    caller: Caller,
    request: HttpRequest,
) -> Result<Json<DecisionBody>, Problem> {
    caller.require(&context, request.headers(), Access::Usage)?;
    let body = read_json(&context, request).await?;
    let request: TrialRequest = serde_json::from_slice(&body).map_err(|error| {
        let message = format!("the body is not a trial: {error}; send {{\"key\": …, \"limit\": …, \"algorithm\": …}}");
        Problem::new(StatusCode::BAD_REQUEST, "", message)
    })?;
    let limit: Limit = request.limit.parse().map_err(|error| Refusal::malformed("limit", error))?;
    if limit.is_in_flight() {
        let message = format!("`{limit}` has no window, so it can't be tried here: use a limit such as 10/5s");
        return Err(Refusal::malformed("limit", message).into());
    }
    let algorithm: Algorithm = request.algorithm.parse().map_err(|error| Refusal::malformed("algorithm", error))?;
    let key = Key::new(&request.key).map_err(|error| Refusal::malformed("key", error))?;
    let policy =
        Policy::unnamed([limit]).map_err(|error| Refusal::malformed("limit", error))?.with_algorithm(algorithm);
    let decision = dashboard.trial.check(&policy, &key, Cost::ONE);
    Ok(Json(DecisionBody::from(&PolicyDecision { decision, policy: ResolvedPolicy::Supplied(Box::new(policy)) })))
}
