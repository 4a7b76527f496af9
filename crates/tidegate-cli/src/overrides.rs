//! `tidegate override`: other limits, bans and exemptions for single keys.

use serde_json::{Value, json};

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
    let OverrideKeyArguments { key, policy, target } = &arguments.key;
    let kind = match (arguments.ban, arguments.exempt) {
        (true, _) => "ban",
        (_, true) => "exempt",
        _ => "limits",
    };
    let body = json!({
        "key": client::key(key),
        "policy": policy,
        "kind": kind,
        "limits": (kind == "limits").then_some(&arguments.limit),
        "algorithm": arguments.algorithm,
        "for": arguments.r#for,
        "until_ms": arguments.until,
        "permanent": arguments.permanent.then_some(true),
        "note": arguments.note,
    });
    client::send(&ApiRequest::post("/v1/override", body), target, format, |body| {
        let replaced = if body["replaced"] == true { "; it replaces an earlier override" } else { "" };
        format!("{}{replaced}\n", sentence(&name(key), policy, &body["override"]))
    })
}

fn remove(
    OverrideKeyArguments { key, policy, target }: &OverrideKeyArguments,
    format: Format,
) -> anyhow::Result<Outcome> {
    let body = json!({ "key": client::key(key), "policy": policy });
    client::send(&ApiRequest::post("/v1/override/lift", body), target, format, |body| {
        let (key, policy) = (name(key), visible(policy));
        if body["lifted"] == true {
            format!("removed: the limits of {policy} apply to {key} again\n")
        } else {
            format!("nothing to remove: {key} has no override under {policy}\n")
        }
    })
}

fn list(arguments: &ListArguments, format: Format) -> anyhow::Result<Outcome> {
    let policy = arguments.policy.as_deref().map(|policy| ("policy", policy));
    let request = ApiRequest::get(client::with_query("/v1/overrides", policy));
    client::send(&request, &arguments.target, format, |body| {
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
            let limits = active["limits"].as_array().into_iter().flatten().filter_map(Value::as_str).map(visible);
            format!("has {} by {algorithm} under {policy}", limits.collect::<Vec<_>>().join(" and "))
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
