//! Health, metrics, policies.

use serde_json::json;

use super::client::{get, post, request};
use crate::running::Running;

const CONFIG: &str = "[policies.api]\nlimits = [\"5/1m\"]\n[policies.api.operations]\nbig = 3\n";
const OTHER: &str = "[policies.other]\nlimits = [\"2/1m\"]\n";

#[test]
fn metrics_count_decisions_by_policy_and_reason() {
    let running = Running::start(&format!("{CONFIG}{OTHER}"));
    // The first check is not near the limit. The second reaches four fifths of it.
    for cost in [1, 3, 3, 6] {
        post(running.http, "/v1/check", &json!({ "policy": "api", "key": "a", "cost": cost }));
    }
    post(running.http, "/v1/peek", &json!({ "policy": "api", "key": "a" }));
    post(running.http, "/v1/check", &json!({ "limits": ["1/1s"], "key": "a" }));
    post(running.http, "/v1/check", &json!({ "policy": "unknown", "key": "a" }));
    let both = json!({ "checks": [{ "policy": "other", "key": "a" }, { "policy": "api", "key": "a", "cost": 4 }] });
    assert_eq!(post(running.http, "/v1/check", &both).status, 429);
    let text = String::from_utf8(get(running.http, "/metrics").body).expect("text");
    for line in [
        "tidegate_decisions_total{policy=\"api\",reason=\"allowed\"} 2",
        "tidegate_decisions_total{policy=\"api\",reason=\"limited\"} 2",
        "tidegate_decisions_total{policy=\"other\",reason=\"allowed\"} 0",
        "tidegate_decisions_total{policy=\"api\",reason=\"impossible\"} 1",
        "tidegate_decisions_total{policy=\"(limits)\",reason=\"allowed\"} 1",
        "tidegate_near_limit_total{policy=\"api\"} 1",
        "tidegate_refused_total{transport=\"http\"} 1",
        "tidegate_decision_seconds_count{policy=\"api\",transport=\"http\"} 5",
        "tidegate_decision_seconds_count{policy=\"(several)\",transport=\"http\"} 1",
        "tidegate_decision_seconds_bucket{le=\"+Inf\",policy=\"(limits)\",transport=\"http\"} 1",
        "tidegate_degraded{cause=\"no_room\"} 0",
        "tidegate_degraded_answers_total{cause=\"no_room\"} 0",
        "# TYPE tidegate_decisions_total counter",
        "tidegate_keys 2",
        "tidegate_last_reload_good 1",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
    }
}

#[test]
fn the_format_of_metrics_follows_accept() {
    let running = Running::start(CONFIG);
    let scrape = |accept: &[(&str, &str)]| request(running.http, "GET", "/metrics", accept, "");
    for accept in [&[][..], &[("accept", "*/*")], &[("accept", "text/plain;version=0.0.4;q=0.5")]] {
        let response = scrape(accept);
        assert_eq!(response.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let text = String::from_utf8(response.body).expect("text");
        assert!(text.contains("\ntidegate_build_info{version=\"") && !text.contains("# EOF"), "{text}");
    }
    let response = scrape(&[("accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")]);
    assert_eq!(response.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    let text = String::from_utf8(response.body).expect("text");
    assert!(text.contains("\n# TYPE tidegate_decisions counter\n") && text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn a_full_store_is_a_degraded_state() {
    let running = Running::start(&format!("[store]\nmax_keys = 1\nat_capacity = \"deny\"\n{CONFIG}"));
    // Each shard stores one key before keys are refused. A thousand keys fill all shards.
    for key in 0..1_000 {
        post(running.http, "/v1/check", &json!({ "policy": "api", "key": key.to_string() }));
    }
    let ready = get(running.http, "/readyz").json();
    assert_eq!((&ready["ready"], &ready["status"]), (&json!(true), &json!("degraded")), "{ready}");
    let state = &ready["degraded"][0];
    assert_eq!(state["cause"], "no_room", "{ready}");
    assert!(state["cure"].as_str().is_some_and(|cure| cure.contains("max_keys")), "{ready}");
    assert!(state["since_ms"].as_u64().is_some_and(|since| since > 0), "{ready}");
    let text = String::from_utf8(get(running.http, "/metrics").body).expect("text");
    assert!(text.contains("\ntidegate_degraded{cause=\"no_room\"} 1\n"), "{text}");
}

#[test]
fn policies_and_readiness_are_shown() {
    let running = Running::start(CONFIG);
    assert_eq!(
        get(running.http, "/v1/policies").json(),
        json!({ "policies": [{
            "name": "api", "limits": ["5/1m"], "algorithm": "sliding_log", "mode": "enforce", "candidate_for": null, "key": "client-ip",
            "on_store_failure": "open", "operations": { "big": 3 }, "hide_keys": false,
            "words": "At most 5 units in any minute. Each request is stored, so the limit is exact. Requests beyond the limit are \
                      denied. If the store fails, requests are allowed."
        }] })
    );
    assert_eq!(get(running.http, "/healthz").body, b"ok\n");
    assert_eq!(
        get(running.http, "/readyz").json(),
        json!({
            "ready": true, "status": "ok", "degraded": [], "store": "memory", "store_answers": true,
            "configuration_error": null
        })
    );
    let document = get(running.http, "/openapi.json").json();
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    for schema in ["CheckRequest", "CheckList", "SingleCheck", "StoreFailureChoice"] {
        assert!(document["components"]["schemas"][schema].is_object(), "{schema}");
    }
}
