//! The `OpenAPI` document, made from the types of requests and answers.

use std::sync::{Arc, OnceLock};

use axum::{
    extract::State,
    http::{HeaderMap, Uri, header::CONTENT_TYPE},
    response::IntoResponse,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{
    IntoResponses, Modify, OpenApi, ToSchema,
    openapi::{
        path::Operation,
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use super::{admin, dashboard, decide, forward, overrides, problem::Problem, status};
use crate::{door::House, transports::body::Body};

#[derive(OpenApi)]
#[openapi(
    info(title = "Tidegate", description = "Sliding-window rate limits, exact.", license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")),
    paths(
        decide::check, decide::peek, decide::charge, forward::forward, admin::refund, admin::reset, admin::inspect,
        overrides::put, overrides::lift, overrides::list,
        dashboard::overview, dashboard::hits, dashboard::live, dashboard::session, dashboard::log_in, dashboard::log_out,
        status::policies, status::healthz, status::readyz, status::metrics, document,
    ),
    components(schemas(Body, Problem, BannedOrProblem)),
    modifiers(&Tokens),
    tags(
        (name = "decisions", description = "May it go ahead?"),
        (name = "admin", description = "Giving back, forgetting, looking, overriding"),
        (name = "dashboard", description = "What people look at"),
        (name = "status", description = "How the service is"),
    )
)]
struct Document;

/// The tokens as security schemes.
struct Tokens;

impl Modify for Tokens {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
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
}

const USAGE: &str = "usage_token";
const ADMIN: &str = "admin_token";

/// Paths that never need a token.
const OPEN: [&str; 4] = ["/healthz", "/readyz", "/openapi.json", "/v1/session"];

/// The tokens that an operation accepts; one of them is enough.
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

fn text() -> String {
    let mut document = serde_json::to_value(Document::openapi()).expect("the document is JSON");
    separate_references(&mut document);
    document.to_string()
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "status", responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value)))]
pub(super) async fn document(
    State(house): State<Arc<House>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<impl IntoResponse, Problem> {
    static TEXT: OnceLock<String> = OnceLock::new();
    super::guard::origin(&house.settings, &headers, &uri)?;
    let text = TEXT.get_or_init(text);
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
    Allowed(Body),
    /// Limited: `retry_after_ms` says for how long.
    #[response(status = 429)]
    Limited(Body),
    /// It costs more than the limit ever allows.
    #[response(status = 422)]
    Impossible(Body),
    /// The store failed and the policy says closed.
    #[response(status = 503)]
    StoreUnavailable(Body),
    /// The request could not be understood.
    #[response(status = 400)]
    Malformed(Problem),
    /// A token is needed.
    #[response(status = 401)]
    NoToken(Problem),
    /// The key is banned: `retry_after_ms` is the time until the ban ends. Or the caller lacks the permission.
    #[response(status = 403)]
    Forbidden(BannedOrProblem),
    /// There is no such policy.
    #[response(status = 404)]
    UnknownPolicy(Problem),
    /// The body took too long to arrive.
    #[response(status = 408)]
    TooSlow(Problem),
    /// The body is too large.
    #[response(status = 413)]
    TooLarge(Problem),
    /// The body is not said to be JSON.
    #[response(status = 415)]
    NotJson(Problem),
}

/// The decision on a banned key, or why the caller lacks the permission.
#[derive(ToSchema, Serialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum BannedOrProblem {
    Banned(Body),
    Problem(Problem),
}

#[derive(IntoResponses)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum Problems {
    /// The request could not be understood.
    #[response(status = 400)]
    Malformed(Problem),
    /// A token is needed.
    #[response(status = 401)]
    NoToken(Problem),
    /// The caller may not.
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
    /// The body is not said to be JSON.
    #[response(status = 415)]
    NotJson(Problem),
    /// Too many wrong tokens came from this address.
    #[response(status = 429)]
    TooManyWrongTokens(Problem),
    /// The store does not answer.
    #[response(status = 503)]
    StoreFailed(Problem),
}
