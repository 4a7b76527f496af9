//! Overrides over HTTP: other limits, bans and exemptions.

use serde_json::{Value, json};

use super::client::{Response, get, post, request};
use crate::running::Running;

const CONFIG: &str = "[policies.api]\nlimits = [\"2/1h\"]\n[policies.secret]\nlimits = [\"2/1h\"]\nhide_keys = true\n";

fn set_override(running: &Running, body: &Value) -> Response {
    post(running.http, "/v1/override", body)
}

fn check(running: &Running, key: &Value) -> Response {
    post(running.http, "/v1/check", &json!({ "policy": "api", "key": key }))
}

#[test]
fn an_override_applies_to_its_key_only() {
    let running = Running::start(CONFIG);
    let key = json!(["alice", "/x"]);
    let ban = json!({ "policy": "api", "key": key, "kind": "ban", "for": "300d", "note": "scraper" });
    let response = set_override(&running, &ban);
    assert_eq!((response.status, &response.json()["replaced"]), (200, &json!(false)), "{response:?}");
    let banned = check(&running, &key);
    assert_eq!((banned.status, &banned.json()["reason"]), (403, &json!("banned")));
    let wait = banned.json()["retry_after_ms"].as_u64().expect("a wait");
    let day = 86_400_000;
    assert!(wait > 299 * day && wait <= 300 * day, "until the ban ends: {wait}");
    assert_eq!(check(&running, &json!("alice")).status, 200, "another key");
    assert_eq!(post(running.http, "/v1/reset", &json!({ "policy": "api", "key": key })).status, 200);
    assert_eq!(check(&running, &key).status, 403, "a reset does not remove a ban");

    let more = json!({ "policy": "api", "key": key, "kind": "limits", "limits": ["3/1h"], "permanent": true });
    assert_eq!(set_override(&running, &more).json()["replaced"], true);
    let first = check(&running, &key);
    assert_eq!((first.status, &first.json()["limit"], &first.json()["remaining"]), (200, &json!("3/1h"), &json!(2)));
    assert_eq!(first.header("ratelimit-policy"), Some("\"api\";q=3;w=3600"));
    assert_eq!(
        (check(&running, &key).status, check(&running, &key).status, check(&running, &key).status),
        (200, 200, 429)
    );
    let shown = get(running.http, "/v1/inspect?policy=api&key=alice&key=/x").json();
    assert_eq!((&shown["override"]["kind"], &shown["override"]["until_ms"]), (&json!("limits"), &Value::Null));
    assert_eq!((&shown["limits"][0]["capacity"], &shown["limits"][0]["used"]), (&json!(3), &json!(3)));

    let exempt = json!({ "policy": "api", "key": key, "kind": "exempt", "until_ms": 4_000_000_000_000_u64 });
    assert_eq!(set_override(&running, &exempt).status, 200);
    for _ in 0..5 {
        let free = check(&running, &key).json();
        assert_eq!((&free["allowed"], &free["charged_at_us"]), (&json!(true), &Value::Null));
    }
    let subject = json!({ "policy": "api", "key": key });
    assert_eq!(post(running.http, "/v1/override/lift", &subject).json(), json!({ "lifted": true }));
    assert_eq!(post(running.http, "/v1/override/lift", &subject).json(), json!({ "lifted": false }));
    assert_eq!(check(&running, &key).status, 429, "used units stay counted");

    let permanent = json!({ "policy": "api", "key": key, "kind": "ban", "permanent": true });
    set_override(&running, &permanent);
    let banned = check(&running, &key);
    assert_eq!((banned.status, &banned.json()["retry_after_ms"]), (403, &Value::Null), "there is no time to wait");
}

#[test]
fn overrides_are_listed_and_recorded_in_the_journal() {
    let running = Running::start(CONFIG);
    for (policy, key, kind) in [("api", "alice", "ban"), ("secret", "bob", "exempt")] {
        set_override(&running, &json!({ "policy": policy, "key": key, "kind": kind, "for": "1h", "note": "why" }));
    }
    let list = get(running.http, "/v1/overrides").json();
    let of = |i: usize| {
        (&list["overrides"][i]["policy"], &list["overrides"][i]["key"], &list["overrides"][i]["override"]["kind"])
    };
    assert_eq!(of(0), (&json!("api"), &json!("alice"), &json!("ban")));
    assert_eq!(of(1), (&json!("secret"), &Value::Null, &json!("exempt")), "that policy's keys are hashed everywhere");
    assert_eq!(get(running.http, "/v1/overrides?policy=api").json()["overrides"].as_array().map(Vec::len), Some(1));
    assert_eq!(get(running.http, "/v1/overrides?policy=unknown").status, 404);
    post(running.http, "/v1/override/lift", &json!({ "policy": "api", "key": "alice" }));
    post(running.http, "/v1/reset", &json!({ "policy": "api", "key": "alice" }));
    let journal = |headers: &[(&str, &str)]| -> Vec<(String, String)> {
        let overview = request(running.http, "GET", "/v1/overview", headers, "").json();
        let lines = overview["journal"].as_array().expect("a list").iter().skip(1);
        lines.map(|line| (line["kind"].to_string(), line["text"].as_str().expect("text").to_owned())).collect()
    };
    let lines = journal(&[]);
    let kinds: Vec<_> = lines.iter().map(|(kind, _)| kind.trim_matches('"')).collect();
    assert_eq!(kinds, ["ban", "exemption", "lift", "reset"]);
    assert_eq!(lines[0].1, "ban of alice under api for 1h (why)");
    assert!(
        lines[1].1.starts_with("exemption of #") && lines[1].1.ends_with(" under secret for 1h (why)"),
        "{lines:?}"
    );
    assert_eq!(lines[2].1, "removed ban of alice under api");
    assert_eq!(lines[3].1, "reset alice under api: it had no state");
    let elsewhere = journal(&[("x-forwarded-for", "10.0.0.1")]);
    let is_hidden = |text: &str| text.contains("a key") && !text.contains("alice") && !text.contains("why");
    assert!(elsewhere.iter().all(|(_, text)| is_hidden(text)), "{elsewhere:?}");
}

#[test]
fn an_invalid_override_is_refused_with_a_reason() {
    let running = Running::start(CONFIG);
    let base = json!({ "policy": "api", "key": "alice", "kind": "ban", "for": "1h" });
    let with = |changes: Value| {
        let mut body = base.clone();
        for (name, value) in changes.as_object().expect("an object") {
            match value {
                Value::Null => body.as_object_mut().and_then(|body| body.remove(name)),
                value => body.as_object_mut().and_then(|body| body.insert(name.clone(), value.clone())),
            };
        }
        body
    };
    for (changes, status, expected) in [
        (json!({ "policy": "apo" }), 404, "did you mean `api`"),
        (json!({ "policy": null }), 400, "policy"),
        (json!({ "key": "" }), 400, "empty"),
        (json!({ "kind": "bann" }), 400, "expected one of"),
        (json!({ "for": null }), 400, "the end is missing"),
        (json!({ "permanent": true }), 400, "the end is missing"),
        (json!({ "for": "soon" }), 400, "30m, 2h or 7d"),
        (json!({ "for": null, "until_ms": 1 }), 400, "has no effect"),
        (json!({ "for": null, "until_ms": 9_000_000_000_001_u64 }), 400, "9000000000000"),
        (json!({ "limits": ["1/1s"] }), 400, "only an override of kind `limits`"),
        (json!({ "kind": "limits" }), 400, "`limits` is missing"),
        (json!({ "kind": "limits", "limits": [] }), 400, "1 to 8"),
        (json!({ "kind": "limits", "limits": ["0/1s"] }), 400, "0"),
        (json!({ "kind": "limits", "limits": ["1/1s"], "algorithm": "guess" }), 400, "guess"),
        (json!({ "note": "x".repeat(257) }), 400, "256"),
        (json!({ "why": "x" }), 400, "unknown field"),
    ] {
        let response = set_override(&running, &with(changes.clone()));
        let error = response.json()["error"].to_string();
        assert!(response.status == status && error.contains(expected), "{changes} gives {} {error}", response.status);
    }
    assert_eq!(get(running.http, "/v1/overrides").json(), json!({ "overrides": [] }), "none of them took effect");
    let caller_limits = json!({ "limits": ["1/1s"], "key": "alice" });
    assert_eq!(post(running.http, "/v1/override/lift", &caller_limits).status, 400);
}

#[test]
fn overrides_require_the_admin_token() {
    let running = Running::start("[server]\nadmin_token = \"change-me-now\"\n[policies.api]\nlimits = [\"2/1h\"]\n");
    let ban = json!({ "policy": "api", "key": "alice", "kind": "ban", "for": "1h" });
    assert_eq!(set_override(&running, &ban).status, 401);
    assert_eq!(post(running.http, "/v1/override/lift", &json!({ "policy": "api", "key": "alice" })).status, 401);
    assert_eq!(get(running.http, "/v1/overrides").status, 401);
    assert_eq!(check(&running, &json!("alice")).status, 200, "nothing was banned");
}
