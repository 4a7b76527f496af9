//! The `OpenAPI` document, made from the types of requests and answers.

use std::sync::{Arc, OnceLock};

use axum::{
    extract::State,
    http::{HeaderMap, Uri, header::CONTENT_TYPE},
    response::IntoResponse,
};
use serde::Deserialize;
use utoipa::{IntoResponses, OpenApi, ToSchema};

use super::{admin, dashboard, decide, forward, overrides, problem::Problem, status};
use crate::{door::House, transports::body::Body};

#[derive(OpenApi)]
#[openapi(
    info(title = "Tidegate", description = "Sliding-window rate limits, exact.", license(name = "MIT OR Apache-2.0")),
    paths(
        decide::check, decide::peek, decide::charge, forward::forward, admin::refund, admin::reset, admin::inspect,
        overrides::put, overrides::lift, overrides::list,
        dashboard::overview, dashboard::hits, dashboard::live, dashboard::session, dashboard::log_in, dashboard::log_out,
        status::policies, status::healthz, status::readyz, status::metrics, document,
    ),
    tags(
        (name = "decisions", description = "May it go ahead?"),
        (name = "admin", description = "Giving back, forgetting, looking, overriding"),
        (name = "dashboard", description = "What people look at"),
        (name = "status", description = "How the service is"),
    )
)]
struct Document;

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "status", responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value)))]
pub(super) async fn document(
    State(house): State<Arc<House>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<impl IntoResponse, Problem> {
    static TEXT: OnceLock<String> = OnceLock::new();
    super::guard::origin(&house.settings, &headers, &uri)?;
    let text = TEXT.get_or_init(|| Document::openapi().to_json().expect("the document is JSON"));
    Ok(([(CONTENT_TYPE, "application/json")], text.as_str()))
}

/// What check, peek and charge take. `request.rs` reads them all as one, to say in words what is wrong.
#[derive(ToSchema, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum CheckRequest {
    /// By a policy of the configuration.
    Policy(ByPolicy),
    /// By limits that the caller brings.
    Limits(ByLimits),
    /// Several as one decision, all or nothing.
    Checks(Several),
}

/// One decision by a policy.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ByPolicy {
    #[schema(min_length = 1, max_length = 128, example = "public-api")]
    policy: String,
    key: KeySchema,
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    cost: Option<u64>,
    /// In place of the cost: what the policy says this costs.
    #[schema(example = "search.list")]
    operation: Option<String>,
    on_store_failure: Option<FailureWord>,
}

/// One decision by limits that the caller brings.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ByLimits {
    key: KeySchema,
    #[schema(min_items = 1, max_items = 8, example = json!(["5/1s", "60/1m"]))]
    limits: Vec<String>,
    #[schema(example = "sliding_log")]
    algorithm: Option<String>,
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    cost: Option<u64>,
    on_store_failure: Option<FailureWord>,
}

/// Several as one.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct Several {
    #[schema(min_items = 1, max_items = 64)]
    checks: Vec<OneOfSeveral>,
}

/// One of several.
#[derive(ToSchema, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum OneOfSeveral {
    Policy(ByPolicy),
    Limits(ByLimits),
}

/// What refund takes.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct RefundRequest {
    #[schema(min_length = 1, max_length = 128, example = "public-api")]
    policy: String,
    key: KeySchema,
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    cost: Option<u64>,
    /// As the decision told it.
    #[schema(maximum = 9_000_000_000_000_000_u64)]
    charged_at_us: u64,
}

/// What reset takes.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ResetRequest {
    #[schema(min_length = 1, max_length = 128, example = "public-api")]
    policy: String,
    key: KeySchema,
}

/// Who is counted: a text, or a list of texts of which no two collide.
#[derive(ToSchema, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum KeySchema {
    One(KeyText),
    Several(KeyList),
}

/// One text.
#[derive(ToSchema, Deserialize)]
#[schema(min_length = 1, max_length = 1024)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct KeyText(String);

/// Several texts; their bytes, and two more for each, are 1024 at the most.
#[derive(ToSchema, Deserialize)]
#[schema(min_items = 1, max_items = 512)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct KeyList(Vec<String>);

/// What to answer when the store fails: `open`, `closed`, `local` or `local:0.25`.
#[derive(ToSchema, Deserialize)]
#[schema(pattern = "^(open|closed|local|local:0\\.[0-9]{0,5}[1-9]|local:1)$")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct FailureWord(String);

#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum DecisionResponses {
    /// It may go ahead.
    #[response(status = 200)]
    Allowed(#[to_schema] Body),
    /// Limited: `retry_after_ms` says for how long.
    #[response(status = 429)]
    Limited(#[to_schema] Body),
    /// It costs more than the limit ever allows.
    #[response(status = 422)]
    Impossible(#[to_schema] Body),
    /// The store failed and the policy says closed.
    #[response(status = 503)]
    StoreUnavailable(#[to_schema] Body),
    /// The request could not be understood.
    #[response(status = 400)]
    Malformed(#[to_schema] Problem),
    /// A token is needed.
    #[response(status = 401)]
    NoToken(#[to_schema] Problem),
    /// The caller may not.
    #[response(status = 403)]
    Forbidden(#[to_schema] Problem),
    /// There is no such policy.
    #[response(status = 404)]
    UnknownPolicy(#[to_schema] Problem),
    /// The body took too long to arrive.
    #[response(status = 408)]
    TooSlow(#[to_schema] Problem),
    /// The body is too large.
    #[response(status = 413)]
    TooLarge(#[to_schema] Problem),
    /// The body is not said to be JSON.
    #[response(status = 415)]
    NotJson(#[to_schema] Problem),
}

#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum Problems {
    /// The request could not be understood.
    #[response(status = 400)]
    Malformed(#[to_schema] Problem),
    /// A token is needed.
    #[response(status = 401)]
    NoToken(#[to_schema] Problem),
    /// The caller may not.
    #[response(status = 403)]
    Forbidden(#[to_schema] Problem),
    /// There is no such policy.
    #[response(status = 404)]
    UnknownPolicy(#[to_schema] Problem),
    /// The body took too long to arrive.
    #[response(status = 408)]
    TooSlow(#[to_schema] Problem),
    /// The body is too large.
    #[response(status = 413)]
    TooLarge(#[to_schema] Problem),
    /// The body is not said to be JSON.
    #[response(status = 415)]
    NotJson(#[to_schema] Problem),
    /// The store does not answer.
    #[response(status = 503)]
    StoreFailed(#[to_schema] Problem),
}
