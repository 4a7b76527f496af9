//! The `OpenAPI` document, derived from the types of requests and responses.

use std::sync::{Arc, OnceLock};

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, Uri, header::CONTENT_TYPE},
    response::IntoResponse,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{
    IntoResponses, OpenApi, ToSchema,
    openapi::{
        path::Operation,
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use super::{admin, decide, forward, overrides, problem::Problem, reservations, status};
use crate::{
    context::Context,
    service::KeyText,
    transports::{
        decision_body::DecisionBody,
        reservation_body::{LeaseBody, ReservationBody},
    },
};

#[derive(OpenApi)]
#[openapi(
    info(title = "Tidegate", description = "Sliding-window rate limits, exact.", license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")),
    paths(
        decide::check, decide::peek, decide::charge, forward::forward, reservations::reserve, reservations::commit,
        reservations::release, reservations::renew, reservations::lease, reservations::settle, admin::refund, admin::reset, admin::inspect,
        overrides::set, overrides::remove, overrides::list,
        status::policies, status::healthz, status::readyz, status::metrics, document,
    ),
    components(schemas(DecisionBody, ReservationBody, LeaseBody, Problem, BannedOrProblem)),
    tags(
        (name = "decisions", description = "Decisions"),
        (name = "reservations", description = "Holds until the actual cost is known, and leases of nodes"),
        (name = "admin", description = "Refunds, resets, inspections and overrides"),
        (name = "status", description = "Health, metrics and policies"),
    )
)]
struct Api;

/// The document. It is written at the first request.
pub(super) struct Document {
    extra: utoipa::openapi::OpenApi,
    text: OnceLock<String>,
}

impl Document {
    /// Adds the paths of another document to those of the API.
    pub(super) fn new(extra: utoipa::openapi::OpenApi) -> Self {
        Self { extra, text: OnceLock::new() }
    }

    fn text(&self) -> &str {
        self.text.get_or_init(|| {
            let mut document = Api::openapi();
            document.merge(self.extra.clone());
            add_security(&mut document);
            let mut document = serde_json::to_value(document).expect("the document is JSON");
            separate_references(&mut document);
            document.to_string()
        })
    }
}

/// Adds the tokens as security schemes.
fn add_security(document: &mut utoipa::openapi::OpenApi) {
    let components = document.components.get_or_insert_default();
    for (name, description) in [
        (USAGE, "`token` of the settings. If the service has none, these operations need no token."),
        (ADMIN, "`admin_token` of the settings. If the service has none, these operations need no token."),
    ] {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(description)).build();
        components.add_security_scheme(name, SecurityScheme::Http(bearer));
    }
    for (path, item) in &mut document.paths.paths {
        let operations = [&mut item.get, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().filter_map(Option::as_mut) {
            operation.security = needed(path, operation);
        }
    }
}

const USAGE: &str = "usage_token";
const ADMIN: &str = "admin_token";

/// Paths that never need a token.
const OPEN: [&str; 4] = ["/healthz", "/readyz", "/openapi.json", "/v1/session"];

/// Returns the tokens that an operation accepts; one of them is enough.
fn needed(path: &str, operation: &Operation) -> Option<Vec<SecurityRequirement>> {
    let is_admin = operation.tags.iter().flatten().any(|tag| tag == "admin");
    let names = match (OPEN.contains(&path), is_admin) {
        (true, _) => return None,
        (false, true) => &[ADMIN][..],
        (false, false) => &[USAGE, ADMIN][..],
    };
    Some(names.iter().map(|name| SecurityRequirement::new(*name, [""; 0])).collect())
}

/// Removes the fields next to a `$ref`, because generators for 3.0 do not expect any. Descriptions of properties move
/// to an `allOf` around the `$ref`; descriptions of alternatives are dropped.
fn separate_references(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(separate_references),
        Value::Object(object) => {
            for (name, inner) in object.iter_mut() {
                match inner {
                    Value::Array(alternatives) if name == "oneOf" || name == "anyOf" => {
                        alternatives.iter_mut().filter_map(Value::as_object_mut).for_each(|alternative| {
                            if alternative.contains_key("$ref") {
                                alternative.retain(|name, _| name == "$ref");
                            }
                        });
                    }
                    _ => {}
                }
                separate_references(inner);
            }
            if object.len() > 1
                && let Some(reference) = object.remove("$ref")
            {
                object.insert("allOf".to_owned(), json!([{ "$ref": reference }]));
            }
        }
        _ => {}
    }
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "status", responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value)))]
pub(super) async fn document(
    State(context): State<Arc<Context>>,
    Extension(document): Extension<Arc<Document>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<impl IntoResponse, Problem> {
    super::guard::origin(&context.settings, &headers, &uri)?;
    Ok(([(CONTENT_TYPE, "application/json")], document.text().to_owned()))
}

/// The request of check, peek and charge. `request.rs` parses all of them with one type, for better errors.
#[derive(ToSchema, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum CheckRequest {
    /// By a configured policy.
    Policy(ByPolicy),
    /// By limits supplied by the caller.
    Limits(ByLimits),
    /// Several checks as one decision, all or nothing.
    Checks(CheckList),
}

/// One decision by a policy.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ByPolicy {
    #[schema(min_length = 1, max_length = 128, example = "public-api")]
    policy: String,
    key: KeyText,
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    cost: Option<u64>,
    /// An operation of the policy, instead of the cost.
    #[schema(example = "search.list")]
    operation: Option<String>,
    on_store_failure: Option<StoreFailureChoice>,
}

/// One decision by limits supplied by the caller.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ByLimits {
    key: KeyText,
    #[schema(min_items = 1, max_items = 8, example = json!(["5/1s", "60/1m"]))]
    limits: Vec<String>,
    #[schema(example = "sliding_log")]
    algorithm: Option<String>,
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    cost: Option<u64>,
    on_store_failure: Option<StoreFailureChoice>,
}

/// Several checks as one decision.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct CheckList {
    #[schema(min_items = 1, max_items = 64)]
    checks: Vec<SingleCheck>,
}

/// One of several checks.
#[derive(ToSchema, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum SingleCheck {
    Policy(ByPolicy),
    Limits(ByLimits),
}

/// The request of refund.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct RefundRequest {
    #[schema(min_length = 1, max_length = 128, example = "public-api")]
    policy: String,
    key: KeyText,
    #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
    cost: Option<u64>,
    /// `charged_at_us` of the decision.
    #[schema(maximum = 9_000_000_000_000_000_u64)]
    charged_at_us: u64,
}

/// The request of reset: with `key`, or with `hash`.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct ResetRequest {
    #[schema(min_length = 1, max_length = 128, example = "public-api")]
    policy: String,
    key: Option<KeyText>,
    /// The hash of the key, if the policy hides its keys.
    #[schema(example = "#0123456789abcdef")]
    hash: Option<String>,
}

/// What to do when the store fails: `open`, `closed`, `local` or `local:0.25`.
#[derive(ToSchema, Deserialize)]
#[schema(pattern = "^(open|closed|local|local:0\\.[0-9]{0,5}[1-9]|local:1)$")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct StoreFailureChoice(String);

/// The responses to check, peek and charge, in addition to or instead of [`Problems`].
#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum DecisionResponses {
    /// Allowed.
    #[response(status = 200)]
    Allowed(DecisionBody),
    /// Limited: `retry_after_ms` is the time until it would fit.
    #[response(status = 429)]
    Limited(DecisionBody),
    /// The cost is higher than the limit ever allows.
    #[response(status = 422)]
    Impossible(DecisionBody),
    /// The store failed, and the policy denies requests then.
    #[response(status = 503)]
    StoreUnavailable(DecisionBody),
    /// The key is banned: `retry_after_ms` is the time until the ban ends. Or the caller lacks the permission.
    #[response(status = 403)]
    Forbidden(BannedOrProblem),
}

/// The decision for a banned key, or the reason why the caller lacks the permission.
#[derive(ToSchema, Serialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum BannedOrProblem {
    Banned(DecisionBody),
    Problem(Problem),
}

#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum Problems {
    /// The request is malformed.
    #[response(status = 400)]
    Malformed(Problem),
    /// A token is needed.
    #[response(status = 401)]
    NoToken(Problem),
    /// The caller lacks the permission.
    #[response(status = 403)]
    Forbidden(Problem),
    /// There is no such policy.
    #[response(status = 404)]
    UnknownPolicy(Problem),
    /// The body took too long to arrive.
    #[response(status = 408)]
    TooSlow(Problem),
    /// The body is too large.
    #[response(status = 413)]
    TooLarge(Problem),
    /// The body is not declared as JSON.
    #[response(status = 415)]
    NotJson(Problem),
    /// Too many wrong tokens came from this address.
    #[response(status = 429)]
    TooManyWrongTokens(Problem),
    /// The store does not support this operation.
    #[response(status = 501)]
    Unsupported(Problem),
    /// The store does not answer.
    #[response(status = 503)]
    StoreFailed(Problem),
}
