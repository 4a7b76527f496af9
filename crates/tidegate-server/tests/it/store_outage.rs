//! The service with a Redis store, and without it during an outage.

use serde_json::{Value, json};
use tidegate_testbed::{Reply, Server};

use crate::{
    http::{
        client::{get, post},
        events::Events,
    },
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
fn the_state_in_redis_is_shared_and_survives_a_restart() {
    let redis = Server::start();
    let request_body = json!({ "policy": "api", "key": "alice" });
    let (one, other) = (Running::start(&config(&redis)), Running::start(&config(&redis)));
    assert_eq!(post(one.http, "/v1/check", &request_body).json()["remaining"], 1);
    assert_eq!(post(other.http, "/v1/check", &request_body).json()["remaining"], 0);
    drop((one, other));
    let third = Running::start(&config(&redis));
    assert_eq!(post(third.http, "/v1/check", &request_body).status, 429);
    assert_eq!(get(third.http, "/readyz").json()["store"], "redis");
    assert_eq!(get(third.http, "/v1/inspect?policy=api&key=alice").json()["limits"][0]["used"], 2);
}

#[test]
fn without_redis_the_call_takes_precedence_over_the_operation_and_the_policy() {
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
        let response = post(running.http, "/v1/check", &body);
        let decision = response.json();
        assert_eq!((response.status, decision["reason"].as_str()), (status, Some(reason)), "{body} gives {decision}");
        assert_eq!(decision["degraded"], true, "{body} gives {decision}");
    }
    let refund = json!({ "policy": "api", "key": "a", "charged_at_us": 1 });
    assert_eq!(post(running.http, "/v1/refund", &refund).status, 503);
    let text = String::from_utf8(get(running.http, "/metrics").body).expect("text");
    assert!(
        text.contains("tidegate_degraded_decisions_total{choice=\"closed\"}")
            && text.contains("tidegate_degraded_answers_total{cause="),
        "{text}"
    );
}

#[test]
fn an_override_applies_on_all_nodes_immediately() {
    let redis = Server::start();
    let (one, other) = (Running::start(&config(&redis)), Running::start(&config(&redis)));
    let request_body = json!({ "policy": "api", "key": "alice" });
    assert_eq!(post(one.http, "/v1/check", &request_body).status, 200);
    let ban = json!({ "policy": "api", "key": "alice", "kind": "ban", "permanent": true, "note": "scraper" });
    assert_eq!(post(one.http, "/v1/override", &ban).status, 200);
    assert_eq!(post(other.http, "/v1/check", &request_body).status, 403, "the next decision obeys the ban");
    assert_eq!(post(other.http, "/v1/reset", &request_body).json(), json!({ "reset": true }));
    assert_eq!(post(one.http, "/v1/check", &request_body).status, 403, "a reset does not remove a ban");
    let list = get(other.http, "/v1/overrides").json();
    let listed = &list["overrides"][0];
    assert_eq!((&listed["key"], &listed["override"]["note"]), (&json!("alice"), &json!("scraper")), "{list}");
    let ttls = |redis: &Server| -> Vec<i64> {
        let mut wire = redis.wire();
        let names = wire.command(["KEYS", "*"]);
        let Reply::Array(names) = &names else { panic!("{names:?} is no list") };
        names.iter().map(|name| wire.command(["TTL", &name.as_str_lossy()]).integer()).collect()
    };
    assert_eq!(ttls(&redis), [-1, -1], "the ban and the list of overrides");
    assert_eq!(post(other.http, "/v1/override/lift", &request_body).json(), json!({ "lifted": true }));
    let decided = post(one.http, "/v1/check", &request_body);
    assert_eq!((decided.status, &decided.json()["remaining"]), (200, &json!(1)));
    assert!(matches!(*ttls(&redis), [left] if left > 0), "only the state is left, and it expires");
}

#[test]
fn the_loss_and_the_return_of_the_store_are_reported() {
    let redis = Server::start();
    let running = Running::start(&config(&redis).replace("10s", "50ms"));
    let mut events = Events::open(running.http, "/v1/live", &[]);
    let request_body = json!({ "policy": "youtube", "key": "a" });
    let has_line = |kind: &'static str| {
        move |tick: &Value| tick["journal"].as_array().expect("a list").iter().any(|line| line["kind"] == kind)
    };
    redis.kill();
    // Until enough calls failed to open the circuit breaker.
    while post(running.http, "/v1/check", &request_body).status == 200
        || get(running.http, "/readyz").json()["store_answers"] == true
    {}
    let tick = events.find("tick", has_line("store_lost"));
    assert_eq!((&tick["store"]["kind"], &tick["store"]["answers"]), (&json!("redis"), &json!(false)));
    assert_ne!(tick["store"]["nodes"][0]["breaker"], "closed");
    let refused = json!({ "policy": "api", "key": "a", "kind": "ban", "for": "1h" });
    assert_eq!(post(running.http, "/v1/override", &refused).status, 503);
    redis.restart();
    while get(running.http, "/readyz").json()["store_answers"] == false {}
    let tick = events.find("tick", has_line("store_back"));
    assert_eq!(tick["store"]["nodes"][0]["breaker"], "closed", "{tick}");
}
