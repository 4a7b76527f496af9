//! With Redis behind, and with Redis gone.

use serde_json::json;
use tidegate_testbed::Server;

use crate::{
    http::client::{get, post},
    running::Running,
};

fn config(redis: &Server) -> String {
    format!(
        r#"
[store]
url = "{}"
timeout = "10s"
[policies.api]
limits = ["2/1h"]
[policies.youtube]
limits = ["100/1d"]
on_store_failure = "closed"
[policies.youtube.operations]
"videos.list" = {{ cost = 1, on_store_failure = "open" }}
"search.list" = 100
"#,
        redis.url()
    )
}

#[test]
fn the_state_is_shared_through_redis_and_survives_the_service() {
    let redis = Server::start();
    let ask = json!({ "policy": "api", "key": "alice" });
    let (one, other) = (Running::start(&config(&redis)), Running::start(&config(&redis)));
    assert_eq!(post(one.http, "/v1/check", &ask).json()["remaining"], 1);
    assert_eq!(post(other.http, "/v1/check", &ask).json()["remaining"], 0);
    drop((one, other));
    let third = Running::start(&config(&redis));
    assert_eq!(post(third.http, "/v1/check", &ask).status, 429);
    assert_eq!(get(third.http, "/readyz").json()["store"], "redis");
    assert_eq!(get(third.http, "/v1/inspect?policy=api&key=alice").json()["limits"][0]["used"], 2);
}

#[test]
fn without_redis_the_call_the_operation_and_the_policy_decide_in_that_order() {
    let redis = Server::start();
    let text = config(&redis).replace("10s", "50ms");
    drop(redis);
    let running = Running::start(&text);
    for (body, status, reason) in [
        (json!({ "policy": "api", "key": "a" }), 200, "allowed"),
        (json!({ "policy": "youtube", "key": "a" }), 503, "store_unavailable"),
        (json!({ "policy": "youtube", "key": "a", "operation": "search.list" }), 503, "store_unavailable"),
        (json!({ "policy": "youtube", "key": "a", "operation": "videos.list" }), 200, "allowed"),
        (
            json!({ "policy": "youtube", "key": "a", "operation": "videos.list", "on_store_failure": "closed" }),
            503,
            "store_unavailable",
        ),
        (json!({ "policy": "youtube", "key": "a", "on_store_failure": "local:0.5" }), 200, "allowed"),
        (
            json!({ "checks": [{ "policy": "api", "key": "a" }, { "policy": "youtube", "key": "a" }] }),
            503,
            "store_unavailable",
        ),
        (
            json!({ "checks": [{ "policy": "api", "key": "a" }, { "policy": "youtube", "key": "a", "operation": "videos.list" }] }),
            200,
            "allowed",
        ),
        (
            json!({ "checks": [{ "policy": "api", "key": "a" }, { "policy": "youtube", "key": "a" }], "on_store_failure": "open" }),
            200,
            "allowed",
        ),
    ] {
        let answer = post(running.http, "/v1/check", &body);
        let told = answer.json();
        assert_eq!((answer.status, told["reason"].as_str()), (status, Some(reason)), "{body} gives {told}");
        assert_eq!(told["degraded"], true, "{body} gives {told}");
    }
    let refund = json!({ "policy": "api", "key": "a", "charged_at_us": 1 });
    assert_eq!(post(running.http, "/v1/refund", &refund).status, 503);
    let text = String::from_utf8(get(running.http, "/metrics").body).expect("text");
    assert!(
        text.contains("tidegate_degraded_total{choice=\"closed\"}")
            && text.contains("tidegate_store_errors_total{kind="),
        "{text}"
    );
}
