//! Decisions over HTTP.

use serde_json::{Value, json};

use super::client::post;
use crate::running::Running;

const CONFIG: &str = r#"
[policies.api]
limits = ["3/1m"]
[policies.login]
limits = ["2/1m", "4/1d"]
[policies.youtube]
limits = ["9500/1d"]
[policies.youtube.operations]
"search.list" = 100
[policies.quiet]
limits = ["1/1m"]
mode = "shadow"
[policies.quick]
limits = ["1/250ms"]
[policies.bursty]
limits = ["60/1m"]
algorithm = "gcra:5"
"#;

#[test]
fn a_decision_has_every_field_and_its_headers() {
    let running = Running::start(CONFIG);
    let request_body = json!({ "policy": "api", "key": "alice" });
    let first = post(running.http, "/v1/check", &request_body);
    assert_eq!(first.status, 200);
    let body = first.json();
    let at = body["charged_at_us"].as_u64().expect("it was charged");
    assert_eq!(
        body,
        json!({
            "allowed": true, "reason": "allowed", "policy": "api", "limit": "3/1m", "used": 1, "remaining": 2,
            "retry_after_ms": null, "reset_after_ms": 60_000, "charged_at_us": at, "degraded": false, "leased": false
        })
    );
    assert_eq!(first.header("content-type"), Some("application/json"));
    assert_eq!(first.header("ratelimit-policy"), Some(r#""api";q=3;w=60"#));
    assert_eq!(first.header("ratelimit"), Some(r#""api";r=2;t=60"#));
    assert_eq!(first.header("retry-after"), None);

    assert_eq!(post(running.http, "/v1/check", &json!({ "policy": "api", "key": "alice", "cost": 2 })).status, 200);
    let denied = post(running.http, "/v1/check", &request_body);
    assert_eq!(denied.status, 429);
    let body = denied.json();
    assert_eq!((&body["allowed"], &body["reason"], &body["remaining"]), (&json!(false), &json!("limited"), &json!(0)));
    assert_eq!(body["charged_at_us"], Value::Null);
    let wait = body["retry_after_ms"].as_u64().expect("a time to wait");
    assert!((1..=60_000).contains(&wait), "{wait}");
    let seconds: u64 = denied.header("retry-after").expect("a retry-after header").parse().expect("a number");
    assert!(seconds >= 1 && seconds * 1000 >= wait, "{seconds} s for {wait} ms");
    assert_eq!(denied.header("ratelimit"), Some(format!(r#""api";r=0;t={seconds}"#).as_str()));

    let impossible = post(running.http, "/v1/check", &json!({ "policy": "api", "key": "bob", "cost": 4 }));
    assert_eq!((impossible.status, &impossible.json()["reason"]), (422, &json!("impossible")));
    assert_eq!(impossible.json()["retry_after_ms"], Value::Null);
    assert_eq!(impossible.header("ratelimit"), None);
}

#[test]
fn each_limit_has_an_item_and_windows_below_a_second_have_no_w() {
    let running = Running::start(CONFIG);
    let login = post(running.http, "/v1/check", &json!({ "policy": "login", "key": "alice" }));
    assert_eq!(login.header("ratelimit-policy"), Some(r#""login:1m";q=2;w=60, "login:1d";q=4;w=86400"#));
    assert_eq!(login.header("ratelimit"), Some(r#""login:1m";r=1;t=60"#));
    let quick = post(running.http, "/v1/check", &json!({ "policy": "quick", "key": "alice" }));
    assert_eq!(quick.header("ratelimit-policy"), Some(r#""quick";q=1"#));
    assert_eq!(quick.header("ratelimit"), Some(r#""quick";r=0;t=1"#));
    let bursty = post(running.http, "/v1/check", &json!({ "policy": "bursty", "key": "alice" }));
    assert_eq!(bursty.header("ratelimit-policy"), Some(r#""bursty";q=5;w=60"#), "q is the capacity");
}

#[test]
fn keys_may_be_lists_and_different_lists_are_different_keys() {
    let running = Running::start(CONFIG);
    let used = |key: Value| {
        let body = post(running.http, "/v1/check", &json!({ "policy": "api", "key": key })).json();
        body["used"].as_u64().expect("a number")
    };
    assert_eq!(used(json!(["alice", "/search"])), 1);
    assert_eq!(used(json!(["alic", "e/search"])), 1);
    assert_eq!(used(json!(["alice/search"])), 1);
    assert_eq!(used(json!("alice/search")), 1);
    assert_eq!(used(json!(["alice", "/search"])), 2);
}

#[test]
fn operations_and_limits_supplied_by_the_caller_are_charged() {
    let running = Running::start(CONFIG);
    let search =
        post(running.http, "/v1/check", &json!({ "policy": "youtube", "key": "k", "operation": "search.list" }));
    assert_eq!(search.json()["used"], 100);
    let own = |limits: &[&str]| {
        let request_body = json!({ "key": "alice", "limits": limits, "algorithm": "sliding_counter", "cost": 2 });
        post(running.http, "/v1/check", &request_body)
    };
    let first = own(&["5/1s", "60/1m"]);
    assert_eq!((first.status, &first.json()["policy"], &first.json()["limit"]), (200, &Value::Null, &json!("5/1s")));
    assert_eq!(first.header("ratelimit-policy"), Some(r#""5/1s";q=5;w=1, "60/1m";q=60;w=60"#));
    assert_eq!(own(&["60/1m"]).json()["used"], 2, "other windows have another state");
    let long = own(&["60/2d"]);
    assert_eq!((long.status, &long.json()["field"]), (400, &json!("limits")));
    assert!(long.json()["error"].as_str().expect("a text").contains("use at most 60/1d"));
}

#[test]
fn several_checks_are_charged_together_and_refunded_separately() {
    let running = Running::start(CONFIG);
    let checks = json!({ "checks": [
        { "policy": "api", "key": "alice" },
        { "policy": "youtube", "key": "acme", "operation": "search.list" },
        { "policy": "api", "key": "alice" },
    ] });
    let first = post(running.http, "/v1/check", &checks);
    assert_eq!(first.status, 200);
    let body = first.json();
    let parts = body["checks"].as_array().expect("one each");
    assert_eq!(parts.len(), 3);
    assert_eq!((&parts[0]["used"], &parts[1]["used"]), (&json!(2), &json!(100)), "equal checks are added up");
    let latest = parts.iter().filter_map(|part| part["charged_at_us"].as_u64()).max();
    assert_eq!(body["charged_at_us"].as_u64(), latest);
    assert_eq!(first.header("ratelimit-policy"), Some(r#""api";q=3;w=60, "youtube";q=9500;w=86400"#));

    let second = post(running.http, "/v1/check", &checks);
    assert_eq!((second.status, &second.json()["policy"]), (429, &json!("api")));
    let peeked = post(running.http, "/v1/peek", &json!({ "policy": "youtube", "key": "acme" })).json();
    assert_eq!(peeked["used"], 100, "nothing was charged");

    let refund = json!({ "checks": [
        { "policy": "api", "key": "alice", "cost": 2, "charged_at_us": parts[0]["charged_at_us"] },
        { "policy": "youtube", "key": "acme", "cost": 100, "charged_at_us": parts[1]["charged_at_us"] },
    ] });
    let refunded = post(running.http, "/v1/refund", &refund);
    assert_eq!((refunded.status, &refunded.json()["returned"]), (200, &json!(true)));
    assert_eq!(refunded.json()["checks"].as_array().map(Vec::len), Some(2));
    assert_eq!(post(running.http, "/v1/check", &checks).status, 200);

    // A refund of several checks is refused as a whole.
    let body = post(running.http, "/v1/peek", &json!({ "policy": "api", "key": "alice" })).json();
    let at = body["charged_at_us"].clone();
    assert_eq!((&body["used"], &at), (&json!(2), &Value::Null));
    let shown = super::client::get(running.http, "/v1/inspect?policy=api&key=alice").json();
    let half = json!({ "checks": [
        { "policy": "api", "key": "alice", "charged_at_us": shown["newest_charge_us"] },
        { "policy": "unknown", "key": "acme", "charged_at_us": 1 },
    ] });
    assert_eq!(post(running.http, "/v1/refund", &half).status, 404);
    assert_eq!(post(running.http, "/v1/peek", &json!({ "policy": "api", "key": "alice" })).json()["used"], 2);
}

#[test]
fn peek_spends_nothing_charge_always_spends_and_reset_deletes_the_state() {
    let running = Running::start(CONFIG);
    let request_body = json!({ "policy": "api", "key": "alice" });
    assert_eq!(post(running.http, "/v1/peek", &request_body).json()["remaining"], 3);
    let charged = post(running.http, "/v1/charge", &json!({ "policy": "api", "key": "alice", "cost": 50 }));
    assert_eq!((charged.status, &charged.json()["used"]), (200, &json!(50)));
    assert_eq!(post(running.http, "/v1/peek", &request_body).status, 429);
    assert_eq!(post(running.http, "/v1/reset", &request_body).json(), json!({ "reset": true }));
    assert_eq!(post(running.http, "/v1/reset", &request_body).json(), json!({ "reset": false }));
    assert_eq!(post(running.http, "/v1/peek", &request_body).json()["remaining"], 3);
}

#[test]
fn a_shadow_policy_admits_with_the_reason_shadow() {
    let running = Running::start(CONFIG);
    let request_body = json!({ "policy": "quiet", "key": "alice" });
    assert_eq!(post(running.http, "/v1/check", &request_body).json()["reason"], "allowed");
    let shadowed = post(running.http, "/v1/check", &request_body);
    assert_eq!((shadowed.status, &shadowed.json()["reason"]), (200, &json!("shadow")));
    assert_eq!(shadowed.header("retry-after"), None);
}

#[test]
fn inspect_shows_the_units_in_use() {
    let running = Running::start(CONFIG);
    let nothing = super::client::get(running.http, "/v1/inspect?policy=api&key=alice").json();
    let unused = &nothing["limits"][0];
    assert_eq!((&nothing["found"], &unused["used"], &unused["remaining"]), (&json!(false), &json!(0), &json!(3)));
    let charged = post(running.http, "/v1/check", &json!({ "policy": "api", "key": "al ice/é", "cost": 2 })).json();
    let shown = super::client::get(running.http, "/v1/inspect?policy=api&key=al%20ice/%C3%A9").json();
    assert_eq!(shown["newest_charge_us"], charged["charged_at_us"]);
    assert_eq!((&shown["limits"][0]["used"], &shown["limits"][0]["entries"][0]["units"]), (&json!(2), &json!(2)));
    post(running.http, "/v1/check", &json!({ "policy": "api", "key": ["a", "b"] }));
    assert_eq!(super::client::get(running.http, "/v1/inspect?policy=api&key=a&key=b").json()["found"], true);
}

#[test]
fn a_denial_has_status_200_on_request() {
    let running = Running::start("[policies.api]\nlimits = [\"1/1h\"]\n");
    let request_body = json!({ "policy": "api", "key": "a" });
    assert_eq!(post(running.http, "/v1/check?deny_status=200", &request_body).status, 200);
    let denied = post(running.http, "/v1/check?deny_status=200", &request_body);
    assert_eq!((denied.status, &denied.json()["reason"]), (200, &json!("limited")));
    assert!(denied.header("retry-after").is_some(), "the headers are the same");
    let impossible = json!({ "policy": "api", "key": "a", "cost": 2 });
    assert_eq!(post(running.http, "/v1/peek?deny_status=200", &impossible).json()["reason"], "impossible");
    for wrong in ["deny_status=201", "deny_status=", "deny=200", "deny_status=200&deny_status=200"] {
        assert_eq!(post(running.http, &format!("/v1/check?{wrong}"), &request_body).status, 400, "{wrong}");
    }
}
