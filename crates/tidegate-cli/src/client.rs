//! check, peek, charge, refund, reset and inspect: sent to a service, or executed on a Redis directly.

mod http;
mod in_process;
mod key_text;

use anyhow::Context as _;
pub(crate) use http::{Endpoint, send as send_to_service};
use serde_json::{Map, Value, json};

use crate::{
    arguments::{CheckArguments, Format, RefundArguments, SubjectArguments, TargetArguments},
    outcome::Outcome,
    output::{print_error, print_text},
    times,
    visible::visible,
};

/// An operation on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Check,
    Peek,
    Charge,
    Refund,
    Reset,
    Inspect,
}

/// A request of the HTTP API.
#[derive(Debug)]
pub(crate) struct ApiRequest {
    /// Whether it has a body.
    is_post: bool,
    /// Path and query.
    path: String,
    body: Map<String, Value>,
}

impl ApiRequest {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { is_post: false, path: path.into(), body: Map::new() }
    }

    pub(crate) fn post(path: &str, body: Map<String, Value>) -> Self {
        Self { is_post: true, path: path.to_owned(), body }
    }
}

pub(crate) fn decide(operation: Operation, arguments: &CheckArguments, format: Format) -> anyhow::Result<Outcome> {
    let mut request = subject(&arguments.subject);
    let mut set = |name: &str, value: Option<Value>| value.map(|value| request.insert(name.to_owned(), value));
    set("cost", arguments.cost.map(Value::from));
    set("operation", arguments.operation.clone().map(Value::from));
    // Without a policy nothing is configured for a failure of Redis. Then requests are denied.
    let default =
        (arguments.subject.target.store.is_some() && arguments.subject.policy.is_none()).then(|| "closed".to_owned());
    set("on_store_failure", arguments.on_store_failure.clone().or(default).map(Value::from));
    run(operation, &arguments.subject, request, format)
}

pub(crate) fn refund(arguments: &RefundArguments, format: Format) -> anyhow::Result<Outcome> {
    let mut request = subject(&arguments.subject);
    request.insert("charged_at_us".to_owned(), arguments.charged_at_us.into());
    if let Some(cost) = arguments.cost {
        request.insert("cost".to_owned(), cost.into());
    }
    run(Operation::Refund, &arguments.subject, request, format)
}

pub(crate) fn reset(arguments: &SubjectArguments, format: Format) -> anyhow::Result<Outcome> {
    run(Operation::Reset, arguments, subject(arguments), format)
}

pub(crate) fn inspect(arguments: &SubjectArguments, format: Format) -> anyhow::Result<Outcome> {
    run(Operation::Inspect, arguments, subject(arguments), format)
}

/// Returns the fields of a request for the key and its limits.
fn subject(arguments: &SubjectArguments) -> Map<String, Value> {
    let mut request = Map::new();
    request.insert("key".to_owned(), key(&arguments.key));
    match &arguments.policy {
        Some(policy) => request.insert("policy".to_owned(), json!(policy)),
        None => request.insert("limits".to_owned(), json!(arguments.limit)),
    };
    if let Some(algorithm) = &arguments.algorithm {
        request.insert("algorithm".to_owned(), json!(algorithm));
    }
    request
}

/// Returns a key as JSON: one text, or a list of texts.
pub(crate) fn key(parts: &[String]) -> Value {
    match parts {
        [one] => json!(one),
        several => json!(several),
    }
}

fn run(
    operation: Operation,
    arguments: &SubjectArguments,
    request: Map<String, Value>,
    format: Format,
) -> anyhow::Result<Outcome> {
    let request = api_request(operation, arguments, request)?;
    let (status, body) = send(&request, &arguments.target)?;
    print_response(status, &body, format, |body| text(operation, body))
}

/// Sends a request to the service, or executes it on a Redis. Returns the status and the body of the response.
pub(crate) fn send(request: &ApiRequest, target: &TargetArguments) -> anyhow::Result<(u16, Value)> {
    match &target.store {
        Some(url) => in_process::send(request, url, target.config.as_ref()),
        None => http::send(request, &Endpoint::new(&target.server, target.token.as_deref())?),
    }
}

/// Prints a response and returns its outcome. `text` formats a response without an error for people.
pub(crate) fn print_response(
    status: u16,
    body: &Value,
    format: Format,
    text: impl FnOnce(&Value) -> String,
) -> anyhow::Result<Outcome> {
    let outcome = match (body["reason"].as_str(), status) {
        (Some("limited"), _) => Outcome::Limited,
        (Some("impossible"), _) => Outcome::Impossible,
        (Some("banned"), _) => Outcome::Banned,
        (Some("store_unavailable"), _) | (_, 503) => Outcome::StoreFailed,
        (_, 200) => Outcome::Good,
        _ => Outcome::Usage,
    };
    match (format, body["error"].as_str()) {
        (Format::Json, _) => print_text(&format!("{body}\n"))?,
        (Format::Text, Some(error)) => print_error(visible(&hinted(body["field"].as_str(), error))),
        (Format::Text, None) => print_text(&text(body))?,
    }
    Ok(outcome)
}

/// Adds a hint about the command line to an error of the service.
pub(crate) fn hinted(field: Option<&str>, error: &str) -> String {
    match field {
        Some("authorization") => format!("{error}: set a token with --token or TIDEGATE_TOKEN"),
        _ => error.to_owned(),
    }
}

/// Returns the limits in a response.
pub(crate) fn limits(body: &Value) -> Vec<String> {
    body["limits"].as_array().into_iter().flatten().filter_map(Value::as_str).map(visible).collect()
}

fn api_request(
    operation: Operation,
    arguments: &SubjectArguments,
    body: Map<String, Value>,
) -> anyhow::Result<ApiRequest> {
    let path = match operation {
        Operation::Check => "/v1/check",
        Operation::Peek => "/v1/peek",
        Operation::Charge => "/v1/charge",
        Operation::Refund => "/v1/refund",
        Operation::Reset => "/v1/reset",
        Operation::Inspect => {
            let policy = arguments.policy.as_ref().context("only keys of a policy can be inspected: use --policy")?;
            let mut query = form_urlencoded::Serializer::new(String::from("/v1/inspect?"));
            query.append_pair("policy", policy);
            query.extend_pairs(arguments.key.iter().map(|key| ("key", key)));
            let path = query.finish().replacen("?&", "?", 1);
            return Ok(ApiRequest::get(path));
        }
    };
    Ok(ApiRequest::post(path, body))
}

/// Formats a response for people.
fn text(operation: Operation, body: &Value) -> String {
    let number = |field: &str| body[field].as_u64().unwrap_or(0);
    let degraded = if body["degraded"] == true { " (degraded: decided without the store)" } else { "" };
    match operation {
        Operation::Refund if body["returned"] == true => "refunded\n".to_owned(),
        Operation::Refund => "nothing to refund\n".to_owned(),
        Operation::Reset if body["reset"] == true => "reset\n".to_owned(),
        Operation::Reset => "nothing to reset\n".to_owned(),
        Operation::Inspect => key_text::key_text(body),
        Operation::Check | Operation::Peek | Operation::Charge if body["reason"] == "banned" => {
            match body["retry_after_ms"].as_u64() {
                Some(wait) => format!("banned: the ban ends in {}{degraded}\n", times::span(wait)),
                None => format!("banned permanently{degraded}\n"),
            }
        }
        Operation::Check | Operation::Peek | Operation::Charge => {
            let (limit, reason) = (body["limit"].as_str().unwrap_or("?"), body["reason"].as_str().unwrap_or("?"));
            let state = format!("{} in use under {limit}, {} remaining", number("used"), number("remaining"));
            let wait = body["retry_after_ms"].as_u64().map_or(String::new(), |wait| format!(", fits in {wait} ms"));
            format!("{reason}: {state}{wait}{degraded}\n")
        }
    }
}
