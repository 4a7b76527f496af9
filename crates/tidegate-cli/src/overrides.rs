//! `tidegate override`: other limits, bans and exemptions for single keys.

use serde_json::{Map, Value, json};

use crate::{
    arguments::{Format, ListArguments, OverrideCommand, OverrideKeyArguments, SetArguments},
    client::{self, ApiRequest},
    outcome::Outcome,
    times,
    visible::visible,
};

pub(crate) fn run(command: &OverrideCommand, format: Format) -> anyhow::Result<Outcome> {
    match command {
        OverrideCommand::Set(arguments) => set(arguments, format),
        OverrideCommand::Remove(arguments) => remove(arguments, format),
        OverrideCommand::List(arguments) => list(arguments, format),
    }
}

fn set(arguments: &SetArguments, format: Format) -> anyhow::Result<Outcome> {
    let mut request = key_fields(&arguments.key);
    let kind = match (arguments.ban, arguments.exempt) {
        (true, _) => "ban",
        (_, true) => "exempt",
        _ => "limits",
    };
    let mut insert = |name: &str, value: Option<Value>| value.map(|value| request.insert(name.to_owned(), value));
    insert("kind", Some(kind.into()));
    insert("limits", (kind == "limits").then(|| json!(arguments.limit)));
    insert("algorithm", arguments.algorithm.clone().map(Value::from));
    insert("for", arguments.r#for.clone().map(Value::from));
    insert("until_ms", arguments.until.map(Value::from));
    insert("for_good", arguments.for_good.then_some(true.into()));
    insert("note", arguments.note.clone().map(Value::from));
    let request = ApiRequest::post("/v1/override", request);
    let (status, body) = client::send(&request, &arguments.key.target)?;
    client::print_response(status, &body, format, |body| {
        let key = name(&arguments.key.key);
        let replaced = if body["replaced"] == true { "; it replaces an earlier override" } else { "" };
        format!("{}{replaced}\n", sentence(&key, &arguments.key.policy, &body["override"]))
    })
}

fn remove(arguments: &OverrideKeyArguments, format: Format) -> anyhow::Result<Outcome> {
    let request = ApiRequest::post("/v1/override/lift", key_fields(arguments));
    let (status, body) = client::send(&request, &arguments.target)?;
    client::print_response(status, &body, format, |body| {
        let (key, policy) = (name(&arguments.key), visible(&arguments.policy));
        if body["lifted"] == true {
            format!("removed: the limits of {policy} apply to {key} again\n")
        } else {
            format!("nothing to remove: {key} has no override under {policy}\n")
        }
    })
}

fn list(arguments: &ListArguments, format: Format) -> anyhow::Result<Outcome> {
    let mut path = "/v1/overrides".to_owned();
    if let Some(policy) = &arguments.policy {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("policy", policy).finish();
        path = format!("{path}?{query}");
    }
    let (status, body) = client::send(&ApiRequest::get(path), &arguments.target)?;
    client::print_response(status, &body, format, |body| {
        let overrides = body["overrides"].as_array().map_or(&[][..], Vec::as_slice);
        if overrides.is_empty() {
            return "there are no overrides\n".to_owned();
        }
        let line = |of: &Value| {
            let key = of["label"].as_str().filter(|label| !label.is_empty()).unwrap_or("(a hidden key)");
            format!("{}\n", sentence(&visible(key), of["policy"].as_str().unwrap_or("?"), &of["override"]))
        };
        overrides.iter().map(line).collect()
    })
}

fn key_fields(arguments: &OverrideKeyArguments) -> Map<String, Value> {
    let mut request = Map::new();
    request.insert("key".to_owned(), client::key(&arguments.key));
    request.insert("policy".to_owned(), json!(arguments.policy));
    request
}

/// Returns a key as it is shown.
fn name(key: &[String]) -> String {
    visible(&key.join(" · "))
}

/// `alice is banned under api until 2026-11-16 15:20:58 UTC (in 2h): scraper`.
fn sentence(key: &str, policy: &str, active: &Value) -> String {
    let policy = visible(policy);
    let what = match active["kind"].as_str() {
        Some("ban") => format!("is banned under {policy}"),
        Some("exempt") => format!("is exempt from {policy}"),
        _ => {
            let algorithm = active["algorithm"].as_str().unwrap_or("?");
            format!("has {} by {algorithm} under {policy}", client::limits(active).join(" and "))
        }
    };
    format!("{key} {what} {}", end_and_note(active))
}

/// `until 2026-11-16 15:20:58 UTC (in 2h): scraper`, or `permanently`.
pub(crate) fn end_and_note(active: &Value) -> String {
    let end = active["until_ms"].as_u64().map_or("permanently".to_owned(), |until| {
        let left = until.saturating_sub(times::now_ms(&tidegate::Clock::system()));
        format!("until {} (in {})", times::moment(until), times::span(left))
    });
    match active["note"].as_str().filter(|note| !note.is_empty()) {
        Some(note) => format!("{end}: {}", visible(note)),
        None => end,
    }
}
