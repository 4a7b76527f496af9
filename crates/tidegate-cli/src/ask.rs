//! check, peek, charge, refund, reset and inspect: asked of a service, or of the Redis behind it.

mod direct;
mod over_http;

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use crate::{
    arguments::{AskArguments, Format, RefundArguments, SubjectArguments},
    outcome::Outcome,
};

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Check,
    Peek,
    Charge,
    Refund,
    Reset,
    Inspect,
}

/// A question in the terms of the HTTP protocol, whoever it is put to.
struct Question {
    /// Whether it has a body.
    is_post: bool,
    /// Path and query.
    path: String,
    body: Map<String, Value>,
}

pub(crate) fn decide(verb: Verb, arguments: &AskArguments, format: Format) -> anyhow::Result<Outcome> {
    let mut request = subject(&arguments.subject);
    let mut set = |name: &str, value: Option<Value>| value.map(|value| request.insert(name.to_owned(), value));
    set("cost", arguments.cost.map(Value::from));
    set("operation", arguments.operation.clone().map(Value::from));
    // Nobody has said what a limit of one's own does without its Redis: then nothing is let through unseen.
    let unsaid =
        (arguments.subject.place.store.is_some() && arguments.subject.policy.is_none()).then(|| "closed".to_owned());
    set("on_store_failure", arguments.on_store_failure.clone().or(unsaid).map(Value::from));
    ask(verb, &arguments.subject, request, format)
}

pub(crate) fn refund(arguments: &RefundArguments, format: Format) -> anyhow::Result<Outcome> {
    let mut request = subject(&arguments.subject);
    request.insert("charged_at_us".to_owned(), arguments.charged_at_us.into());
    if let Some(cost) = arguments.cost {
        request.insert("cost".to_owned(), cost.into());
    }
    ask(Verb::Refund, &arguments.subject, request, format)
}

pub(crate) fn reset(arguments: &SubjectArguments, format: Format) -> anyhow::Result<Outcome> {
    ask(Verb::Reset, arguments, subject(arguments), format)
}

pub(crate) fn inspect(arguments: &SubjectArguments, format: Format) -> anyhow::Result<Outcome> {
    ask(Verb::Inspect, arguments, subject(arguments), format)
}

/// The request's part about whom it counts, as the HTTP protocol has it.
fn subject(arguments: &SubjectArguments) -> Map<String, Value> {
    let mut request = Map::new();
    let key = match arguments.key.as_slice() {
        [one] => json!(one),
        several => json!(several),
    };
    request.insert("key".to_owned(), key);
    match &arguments.policy {
        Some(policy) => request.insert("policy".to_owned(), json!(policy)),
        None => request.insert("limits".to_owned(), json!(arguments.limit)),
    };
    if let Some(algorithm) = &arguments.algorithm {
        request.insert("algorithm".to_owned(), json!(algorithm));
    }
    request
}

fn ask(
    verb: Verb,
    arguments: &SubjectArguments,
    request: Map<String, Value>,
    format: Format,
) -> anyhow::Result<Outcome> {
    let question = question(verb, arguments, request)?;
    let place = &arguments.place;
    let answered = match &place.store {
        Some(url) => direct::put(&question, url, place.config.as_ref())?,
        None => over_http::put(&question, &place.server, place.token.as_deref())?,
    };
    let (status, body) = answered;
    let outcome = match (body["reason"].as_str(), status) {
        (Some("limited"), _) => Outcome::Limited,
        (Some("impossible"), _) => Outcome::Impossible,
        (Some("store_unavailable"), _) | (_, 503) => Outcome::StoreFailed,
        (_, 200) => Outcome::Good,
        _ => Outcome::Usage,
    };
    match format {
        Format::Json => println!("{body}"),
        Format::Text => print(verb, &body),
    }
    Ok(outcome)
}

fn question(verb: Verb, arguments: &SubjectArguments, body: Map<String, Value>) -> anyhow::Result<Question> {
    let path = match verb {
        Verb::Check => "/v1/check",
        Verb::Peek => "/v1/peek",
        Verb::Charge => "/v1/charge",
        Verb::Refund => "/v1/refund",
        Verb::Reset => "/v1/reset",
        Verb::Inspect => {
            let policy = arguments.policy.as_ref().context("only keys of policies are shown: use --policy")?;
            let mut query = form_urlencoded::Serializer::new(String::from("/v1/inspect?"));
            query.append_pair("policy", policy);
            query.extend_pairs(arguments.key.iter().map(|key| ("key", key)));
            let path = query.finish().replacen("?&", "?", 1);
            return Ok(Question { is_post: false, path, body: Map::new() });
        }
    };
    Ok(Question { is_post: true, path: path.to_owned(), body })
}

fn print(verb: Verb, body: &Value) {
    if let Some(error) = body["error"].as_str() {
        eprintln!("tidegate: {error}");
        return;
    }
    let number = |field: &str| body[field].as_u64().unwrap_or(0);
    let degraded = if body["degraded"] == true { " (degraded: the store did not decide this)" } else { "" };
    match verb {
        Verb::Refund => println!("{}", if body["returned"] == true { "given back" } else { "nothing to give back" }),
        Verb::Reset => println!("{}", if body["reset"] == true { "forgotten" } else { "nothing to forget" }),
        Verb::Inspect => {
            println!("{}", serde_json::to_string_pretty(body).unwrap_or_default());
        }
        Verb::Check | Verb::Peek | Verb::Charge => {
            let (limit, reason) = (body["limit"].as_str().unwrap_or("?"), body["reason"].as_str().unwrap_or("?"));
            let standing = format!("{} in use under {limit}, {} left", number("used"), number("remaining"));
            let wait = body["retry_after_ms"].as_u64().map_or(String::new(), |wait| format!(", fits in {wait} ms"));
            println!("{reason}: {standing}{wait}{degraded}");
        }
    }
}
