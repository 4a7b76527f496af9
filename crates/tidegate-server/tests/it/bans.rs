//! A banned key is denied as banned by every transport, with the end of the ban if it has one.

use serde_json::{Value, json};
use tidegate_testbed::Server;

use crate::{
    grpc::{GrpcClient, descriptor},
    http::client::{get, post, request},
    resp::client::{Client, Reply},
};

const DAY_MS: u64 = 86_400_000;

fn config(store: &str) -> String {
    format!(
        "[server]\ntrusted_proxies = [\"127.0.0.0/8\"]\n[store]\nurl = \"{store}\"\ntimeout = \"10s\"\n\
         [policies.api]\nlimits = [\"2/1h\"]\nkey = \"header:x-api-key\"\non_store_failure = \"closed\"\n\
         [policies.watched]\nlimits = [\"2/1h\"]\nmode = \"shadow\"\n\
         [[envoy]]\ndomain = \"edge\"\ndescriptors = [[\"user\"]]\npolicy = \"api\"\n"
    )
}

/// Checks a key that is banned for 300 days and a key that is banned permanently over all transports.
fn every_transport_reports_a_ban(store: &str) {
    let service = GrpcClient::start(&config(store));
    let http = service.running.http;
    let ban = |policy: &str, key: &Value, end: &str, value: Value| {
        let body = json!({ "policy": policy, "key": key, "kind": "ban", end: value });
        assert_eq!(post(http, "/v1/override", &body).status, 200);
    };
    for (name, end, value) in [("timed", "for", json!("300d")), ("permanent", "permanent", json!(true))] {
        for key in [json!(name), json!(["user", name])] {
            ban("api", &key, end, value.clone());
            ban("watched", &key, end, value.clone());
        }
        let is_timed = name == "timed";
        let until_end = |wait_ms: u64| wait_ms > 299 * DAY_MS && wait_ms <= 300 * DAY_MS;

        for cost in [1, 3] {
            let checked = post(http, "/v1/check", &json!({ "policy": "api", "key": name, "cost": cost }));
            let body = checked.json();
            assert_eq!((checked.status, &body["reason"]), (403, &json!("banned")), "{name}, cost {cost}");
            assert_eq!((&body["used"], &body["remaining"], &body["reset_after_ms"]), (&json!(0), &json!(0), &json!(0)));
            assert_eq!(body["retry_after_ms"].as_u64().map(until_end), is_timed.then_some(true), "{body}");
            let seconds = checked.header("retry-after").map(|wait| wait.parse::<u64>().expect("seconds") * 1_000);
            assert_eq!(seconds.map(until_end), is_timed.then_some(true));
            assert_eq!((checked.header("ratelimit"), checked.header("ratelimit-policy")), (None, None));
        }
        let forwarded = request(http, "GET", "/v1/forward?policy=api", &[("x-api-key", name)], "");
        assert_eq!((forwarded.status, &forwarded.json()["reason"]), (403, &json!("banned")));
        assert_eq!(forwarded.header("retry-after").is_some(), is_timed);
        assert_eq!((forwarded.header("ratelimit"), forwarded.header("ratelimit-policy")), (None, None));
        let watched = post(http, "/v1/check", &json!({ "policy": "watched", "key": name }));
        assert_eq!((watched.status, &watched.json()["reason"]), (200, &json!("shadow")));
        let several = json!({ "checks": [{ "policy": "api", "key": "free" }, { "policy": "api", "key": name }] });
        let several = post(http, "/v1/check", &several);
        assert_eq!((several.status, &several.json()["reason"]), (403, &json!("banned")));
        assert_eq!(several.json()["checks"][0]["charged_at_us"], Value::Null, "the other check is not charged");

        let mut client = Client::connect(service.running.resp);
        let six = client.call(&format!("TG.CHECK api {name}")).numbers();
        assert_eq!(six[..3], [0, 2, 0]);
        let wait = u64::try_from(six[3]).ok();
        assert_eq!((wait.map(until_end), six[3] == -4), (is_timed.then_some(true), !is_timed), "{six:?}");
        assert_eq!(client.call(&format!("TG.CHECK watched {name}")).numbers()[0], 1);
        let full = client.call(&format!("TG.PEEK api {name} FULL"));
        assert_eq!(full.field("reason"), Reply::bulk("banned"));
        assert_eq!(full.field("retry_after_ms") == Reply::Null, !is_timed);

        let status = service.check_one(descriptor(&[("user", name)]));
        assert_eq!((status.code, status.limit_remaining), (2, 0), "OVER_LIMIT");
        let reset = status.duration_until_reset.map(|wait| u64::try_from(wait.seconds).expect("ahead") * 1_000);
        assert_eq!(reset.map(until_end), is_timed.then_some(true));
    }
    let metrics = String::from_utf8(get(http, "/metrics").body).expect("text");
    let counted = "tidegate_decisions_total{policy=\"api\",reason=\"banned\"} ";
    let banned = metrics.lines().find_map(|line| line.strip_prefix(counted)).expect("bans are counted");
    // Per key: two checks, one forwarded, one of several, one over RESP and one over gRPC. A peek is not counted.
    assert_eq!(banned, "12");
    assert!(metrics.contains("tidegate_decisions_total{policy=\"api\",reason=\"impossible\"} 0"), "{metrics}");
}

#[test]
fn every_transport_reports_a_ban_in_memory() {
    every_transport_reports_a_ban("memory");
}

#[test]
fn every_transport_reports_a_ban_in_redis() {
    let redis = Server::start();
    every_transport_reports_a_ban(&redis.url());
}
