//! `tidegate override`: other limits, bans and exemptions of single keys.

use serde_json::{Map, Value, json};

use crate::{
    arguments::{Format, ListArguments, OverriddenArguments, OverrideCommand, SetArguments},
    ask::{self, Question},
    outcome::Outcome,
    times,
    visible::visible,
};

pub(crate) fn run(command: &OverrideCommand, format: Format) -> anyhow::Result<Outcome> {
    match command {
        OverrideCommand::Set(arguments) => set(arguments, format),
        OverrideCommand::Lift(arguments) => lift(arguments, format),
        OverrideCommand::List(arguments) => list(arguments, format),
    }
}

fn set(arguments: &SetArguments, format: Format) -> anyhow::Result<Outcome> {
    let mut request = whose(&arguments.whose);
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
    let question = Question::post("/v1/override", request);
    let (status, body) = ask::put(&question, &arguments.whose.place)?;
    ask::tell(status, &body, format, |body| {
        let who = name(&arguments.whose.key);
        let replaced = if body["replaced"] == true { "; this takes the place of an older override" } else { "" };
        format!("{}{replaced}\n", sentence(&who, &arguments.whose.policy, &body["override"]))
    })
}

fn lift(arguments: &OverriddenArguments, format: Format) -> anyhow::Result<Outcome> {
    let question = Question::post("/v1/override/lift", whose(arguments));
    let (status, body) = ask::put(&question, &arguments.place)?;
    ask::tell(status, &body, format, |body| {
        let (who, policy) = (name(&arguments.key), visible(&arguments.policy));
        if body["lifted"] == true {
            format!("lifted: the limits of {policy} hold again for {who}\n")
        } else {
            format!("nothing to lift: {who} has no override under {policy}\n")
        }
    })
}

fn list(arguments: &ListArguments, format: Format) -> anyhow::Result<Outcome> {
    let mut path = "/v1/overrides".to_owned();
    if let Some(policy) = &arguments.policy {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("policy", policy).finish();
        path = format!("{path}?{query}");
    }
    let (status, body) = ask::put(&Question::get(path), &arguments.place)?;
    ask::tell(status, &body, format, |body| {
        let overrides = body["overrides"].as_array().map_or(&[][..], Vec::as_slice);
        if overrides.is_empty() {
            return "no overrides are in force\n".to_owned();
        }
        let line = |of: &Value| {
            let who = of["label"].as_str().filter(|label| !label.is_empty()).unwrap_or("(a hidden key)");
            format!("{}\n", sentence(&visible(who), of["policy"].as_str().unwrap_or("?"), &of["override"]))
        };
        overrides.iter().map(line).collect()
    })
}

fn whose(arguments: &OverriddenArguments) -> Map<String, Value> {
    let mut request = Map::new();
    request.insert("key".to_owned(), ask::key(&arguments.key));
    request.insert("policy".to_owned(), json!(arguments.policy));
    request
}

/// A key as it is shown.
fn name(key: &[String]) -> String {
    visible(&key.join(" · "))
}

/// `alice is banned under api until 2026-11-16 15:20:58 UTC (in 2h): scraper`.
fn sentence(who: &str, policy: &str, told: &Value) -> String {
    let policy = visible(policy);
    let what = match told["kind"].as_str() {
        Some("ban") => format!("is banned under {policy}"),
        Some("exempt") => format!("is exempt from {policy}"),
        _ => {
            let algorithm = told["algorithm"].as_str().unwrap_or("?");
            format!("has {} by {algorithm} under {policy}", ask::limits(told).join(" and "))
        }
    };
    format!("{who} {what} {}", end_and_note(told))
}

/// `until 2026-11-16 15:20:58 UTC (in 2h): scraper`, or `for good`.
pub(crate) fn end_and_note(told: &Value) -> String {
    let end = told["until_ms"].as_u64().map_or("for good".to_owned(), |until| {
        let left = until.saturating_sub(times::now_ms(&tidegate::Clock::system()));
        format!("until {} (in {})", times::moment(until), times::span(left))
    });
    match told["note"].as_str().filter(|note| !note.is_empty()) {
        Some(note) => format!("{end}: {}", visible(note)),
        None => end,
    }
}
