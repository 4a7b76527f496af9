//! check, peek, charge, refund, reset and inspect: asked of a service, or of the Redis behind it.

mod direct;
mod over_http;
mod show;

use anyhow::Context as _;
pub(crate) use over_http::{Place, put as put_to_service};
use serde_json::{Map, Value, json};

use crate::{
    arguments::{AskArguments, Format, RefundArguments, SubjectArguments, WhereArguments},
    outcome::Outcome,
    say::{complain, say},
    times,
    visible::visible,
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
#[derive(Debug)]
pub(crate) struct Question {
    /// Whether it has a body.
    is_post: bool,
    /// Path and query.
    path: String,
    body: Map<String, Value>,
}

impl Question {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { is_post: false, path: path.into(), body: Map::new() }
    }

    pub(crate) fn post(path: &str, body: Map<String, Value>) -> Self {
        Self { is_post: true, path: path.to_owned(), body }
    }
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

/// A key as the HTTP protocol has it: one text, or a list of several.
pub(crate) fn key(parts: &[String]) -> Value {
    match parts {
        [one] => json!(one),
        several => json!(several),
    }
}

fn ask(
    verb: Verb,
    arguments: &SubjectArguments,
    request: Map<String, Value>,
    format: Format,
) -> anyhow::Result<Outcome> {
    let question = question(verb, arguments, request)?;
    let (status, body) = put(&question, &arguments.place)?;
    tell(status, &body, format, |body| text(verb, body))
}

/// Puts a question to the service, or to the Redis behind it; the answer's status and body.
pub(crate) fn put(question: &Question, place: &WhereArguments) -> anyhow::Result<(u16, Value)> {
    match &place.store {
        Some(url) => direct::put(question, url, place.config.as_ref()),
        None => over_http::put(question, &Place::new(&place.server, place.token.as_deref())?),
    }
}

/// Prints an answer, of which `text` is what people read unless it is an error, and says what it comes to.
pub(crate) fn tell(
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
        (Format::Json, _) => say(&format!("{body}\n"))?,
        (Format::Text, Some(error)) => complain(visible(&hinted(body["field"].as_str(), error))),
        (Format::Text, None) => say(&text(body))?,
    }
    Ok(outcome)
}

/// An error of the service, with what to do about it here.
pub(crate) fn hinted(field: Option<&str>, error: &str) -> String {
    match field {
        Some("authorization") => format!("{error}: give a token with --token or TIDEGATE_TOKEN"),
        _ => error.to_owned(),
    }
}

/// The limits that an answer lists.
pub(crate) fn limits(told: &Value) -> Vec<String> {
    told["limits"].as_array().into_iter().flatten().filter_map(Value::as_str).map(visible).collect()
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
            return Ok(Question::get(path));
        }
    };
    Ok(Question::post(path, body))
}

/// What people read of an answer.
fn text(verb: Verb, body: &Value) -> String {
    let number = |field: &str| body[field].as_u64().unwrap_or(0);
    let degraded = if body["degraded"] == true { " (degraded: the store did not decide this)" } else { "" };
    match verb {
        Verb::Refund if body["returned"] == true => "given back\n".to_owned(),
        Verb::Refund => "nothing to give back\n".to_owned(),
        Verb::Reset if body["reset"] == true => "forgotten\n".to_owned(),
        Verb::Reset => "nothing to forget\n".to_owned(),
        Verb::Inspect => show::shown(body),
        Verb::Check | Verb::Peek | Verb::Charge if body["reason"] == "banned" => {
            match body["retry_after_ms"].as_u64() {
                Some(wait) => format!("banned: the ban ends in {}{degraded}\n", times::span(wait)),
                None => format!("banned permanently{degraded}\n"),
            }
        }
        Verb::Check | Verb::Peek | Verb::Charge => {
            let (limit, reason) = (body["limit"].as_str().unwrap_or("?"), body["reason"].as_str().unwrap_or("?"));
            let standing = format!("{} in use under {limit}, {} left", number("used"), number("remaining"));
            let wait = body["retry_after_ms"].as_u64().map_or(String::new(), |wait| format!(", fits in {wait} ms"));
            format!("{reason}: {standing}{wait}{degraded}\n")
        }
    }
}
