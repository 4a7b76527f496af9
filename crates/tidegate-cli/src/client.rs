//! check, peek, charge, refund, reset and inspect: sent to a service, or executed on a Redis directly.

mod certificates;
mod failure;
mod http;
mod in_process;
mod key_text;

use anyhow::Context as _;
pub(crate) use http::{Endpoint, send as send_to_service};
pub(crate) use in_process::with_ca;
use serde_json::{Value, json};

use crate::{
    arguments::{CheckArguments, Format, RefundArguments, SubjectArguments, TargetArguments},
    outcome::Outcome,
    output::{print_error, print_text},
    reservations, times,
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
    Reserve,
}

/// A request of the HTTP API.
#[derive(Debug)]
pub(crate) struct ApiRequest {
    /// Path and query.
    path: String,
    /// The body of a POST request. A GET request has none.
    body: Option<Value>,
}

impl ApiRequest {
    pub(crate) fn get(path: String) -> Self {
        Self { path, body: None }
    }

    /// Creates a POST request. The fields of the body that are null are left out.
    pub(crate) fn post(path: &str, mut body: Value) -> Self {
        if let Some(fields) = body.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        Self { path: path.to_owned(), body: Some(body) }
    }
}

/// Returns a path with a query.
pub(crate) fn with_query<'a>(path: &str, query: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

pub(crate) fn decide(operation: Operation, arguments: &CheckArguments, format: Format) -> anyhow::Result<Outcome> {
    let request = decision_request(operation, arguments, json!({}))?;
    send(&request, &arguments.subject.target, format, |body| text(operation, body))
}

/// Creates the request for a decision. `body` has further fields.
pub(crate) fn decision_request(
    operation: Operation,
    arguments: &CheckArguments,
    mut body: Value,
) -> anyhow::Result<ApiRequest> {
    let CheckArguments { subject, cost, operation: priced, on_store_failure } = arguments;
    body["cost"] = json!(cost);
    body["operation"] = json!(priced);
    body["on_store_failure"] =
        json!(failure_choice(on_store_failure.as_deref(), &subject.target, subject.policy.as_deref()));
    key_request(operation, subject, body)
}

/// Returns the choice for a failure of the store. Without a policy nothing is configured for a failure of Redis. Then
/// requests are denied.
pub(crate) fn failure_choice<'a>(
    given: Option<&'a str>,
    target: &TargetArguments,
    policy: Option<&str>,
) -> Option<&'a str> {
    given.or((target.store.is_some() && policy.is_none()).then_some("closed"))
}

pub(crate) fn refund(arguments: &RefundArguments, format: Format) -> anyhow::Result<Outcome> {
    let body = json!({ "cost": arguments.cost, "charged_at_us": arguments.charged_at_us });
    run(Operation::Refund, &arguments.subject, body, format)
}

/// Returns a key as JSON: one text, or a list of texts.
pub(crate) fn key(parts: &[String]) -> Value {
    match parts {
        [one] => json!(one),
        several => json!(several),
    }
}

/// Executes an operation on a key. `body` has the fields of the request other than the key and its limits.
pub(crate) fn run(
    operation: Operation,
    subject: &SubjectArguments,
    body: Value,
    format: Format,
) -> anyhow::Result<Outcome> {
    let request = key_request(operation, subject, body)?;
    send(&request, &subject.target, format, |body| text(operation, body))
}

fn key_request(operation: Operation, subject: &SubjectArguments, mut body: Value) -> anyhow::Result<ApiRequest> {
    body["key"] = key(&subject.key);
    body["policy"] = json!(subject.policy);
    body["limits"] = json!(subject.policy.is_none().then_some(&subject.limit));
    body["algorithm"] = json!(subject.algorithm);
    Ok(match operation {
        Operation::Check => ApiRequest::post("/v1/check", body),
        Operation::Peek => ApiRequest::post("/v1/peek", body),
        Operation::Charge => ApiRequest::post("/v1/charge", body),
        Operation::Reserve => ApiRequest::post("/v1/reserve", body),
        Operation::Refund => ApiRequest::post("/v1/refund", body),
        Operation::Reset => ApiRequest::post("/v1/reset", body),
        Operation::Inspect => {
            let policy = subject.policy.as_deref();
            let policy = policy.context("only keys of a policy can be inspected: use --policy")?;
            let key = subject.key.iter().map(|part| ("key", part.as_str()));
            ApiRequest::get(with_query("/v1/inspect", std::iter::once(("policy", policy)).chain(key)))
        }
    })
}

/// Sends a request to the service, or executes it on a Redis. Prints the response and returns its outcome.
pub(crate) fn send(
    request: &ApiRequest,
    target: &TargetArguments,
    format: Format,
    text: impl FnOnce(&Value) -> String,
) -> anyhow::Result<Outcome> {
    let (status, body) = exchange(request, target)?;
    print_response(status, &body, format, text)
}

/// Sends a request to the service, or executes it on a Redis. Returns the status and the body of the response.
pub(crate) fn exchange(request: &ApiRequest, target: &TargetArguments) -> anyhow::Result<(u16, Value)> {
    match &target.store {
        Some(url) => in_process::send(request, url, target.service.ca.as_deref(), target.config.as_ref()),
        None => http::send(request, &Endpoint::new(&target.service)?),
    }
}

/// Prints a response and returns its outcome. `text` formats a response without an error for people.
pub(crate) fn print_response(
    status: u16,
    body: &Value,
    format: Format,
    text: impl FnOnce(&Value) -> String,
) -> anyhow::Result<Outcome> {
    let outcome = outcome_of(status, body);
    match (format, body["error"].as_str()) {
        (Format::Json, _) => print_text(&format!("{body}\n"))?,
        (Format::Text, Some(error)) => print_error(visible(&hinted(body["field"].as_str(), error))),
        (Format::Text, None) => print_text(&text(body))?,
    }
    Ok(outcome)
}

/// Returns the outcome that a response means.
pub(crate) fn outcome_of(status: u16, body: &Value) -> Outcome {
    match (body["reason"].as_str(), status) {
        (Some("limited"), _) => Outcome::Limited,
        (Some("impossible"), _) => Outcome::Impossible,
        (Some("banned"), _) => Outcome::Banned,
        (Some("store_unavailable"), _) | (_, 503) => Outcome::StoreFailed,
        (_, 200) if body["known"] == false => Outcome::Limited,
        (_, 200) => Outcome::Good,
        _ => Outcome::Usage,
    }
}

/// Adds a hint about the command line to an error of the service.
pub(crate) fn hinted(field: Option<&str>, error: &str) -> String {
    match field {
        Some("authorization") => format!("{error}: set a token with --token or TIDEGATE_TOKEN"),
        _ => error.to_owned(),
    }
}

/// Formats a response for people.
fn text(operation: Operation, body: &Value) -> String {
    match operation {
        Operation::Refund if body["returned"] == true => "refunded\n".to_owned(),
        Operation::Refund => "nothing to refund\n".to_owned(),
        Operation::Reset if body["reset"] == true => "reset\n".to_owned(),
        Operation::Reset => "nothing to reset\n".to_owned(),
        Operation::Inspect => key_text::key_text(body),
        Operation::Check | Operation::Peek | Operation::Charge => decision_text(body),
        Operation::Reserve => reservations::reserved_text(body),
    }
}

/// Formats a decision for people.
pub(crate) fn decision_text(body: &Value) -> String {
    let decided_by = match (&body["degraded"], &body["leased"]) {
        (Value::Bool(true), _) => " (degraded: decided without the store)",
        (_, Value::Bool(true)) => " (leased: decided by a lease of the service)",
        _ => "",
    };
    if body["reason"] == "banned" {
        return match body["retry_after_ms"].as_u64() {
            Some(wait) => format!("banned: the ban ends in {}{decided_by}\n", times::span(wait)),
            None => format!("banned permanently{decided_by}\n"),
        };
    }
    let reason = body["reason"].as_str().unwrap_or("?");
    let wait = body["retry_after_ms"].as_u64().map_or(String::new(), |wait| format!(", fits in {wait} ms"));
    format!("{reason}: {}{wait}{decided_by}\n", known_use_text(body))
}

/// The units in use, if they are known. Without the store, only units that this decision or this process has charged are.
fn known_use_text(body: &Value) -> String {
    if body["degraded"] == true && body["used"] == 0 {
        let limit = visible(body["limit"].as_str().unwrap_or("?"));
        return format!("the units in use under {limit} are not known");
    }
    in_use_text(body)
}

/// `1 in use under 2/1h, 1 remaining`.
pub(crate) fn in_use_text(body: &Value) -> String {
    let number = |field: &str| body[field].as_u64().unwrap_or(0);
    let limit = visible(body["limit"].as_str().unwrap_or("?"));
    format!("{} in use under {limit}, {} remaining", number("used"), number("remaining"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::decision_text;

    #[test]
    fn a_decision_by_a_lease_is_shown_as_one() {
        let mut body = json!({ "reason": "allowed", "limit": "60/1m", "used": 7, "remaining": 20, "retry_after_ms": null,
                               "degraded": false, "leased": true });
        assert_eq!(
            decision_text(&body),
            "allowed: 7 in use under 60/1m, 20 remaining (leased: decided by a lease of the service)\n"
        );
        body["leased"] = json!(false);
        assert_eq!(decision_text(&body), "allowed: 7 in use under 60/1m, 20 remaining\n");
    }
}
