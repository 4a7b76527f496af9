//! Headers and responses of keys with overrides.

use std::time::Duration;

use tidegate::{Key, Override, Policy, Timestamp};
use tidegate_tower::{RateLimitLayer, Rule, key::Global};

use crate::test_server::{START, TestResponse, TestServer, hello, policy};

/// A server with these limits. The client has an override.
async fn server(format: &str, limits: &[&str], by: Override) -> TestServer {
    let policy = policy("api", limits);
    let layer = RateLimitLayer::new(policy.clone()).headers(format.parse().expect("a format"));
    let server = TestServer::behind(layer).await;
    set(&server, &policy, by);
    server
}

fn set(server: &TestServer, policy: &Policy, by: Override) {
    server.limiter.set_override(policy, &Key::new("127.0.0.1").expect("a key"), by).expect("there is room");
}

fn in_seconds(seconds: u64) -> Timestamp {
    Timestamp::from_micros((START + seconds) * 1_000_000)
}

fn draft_10(response: &TestResponse) -> [String; 2] {
    ["ratelimit-policy", "ratelimit"].map(|name| response.header(name).unwrap_or_default())
}

#[tokio::test]
async fn draft_10_reports_the_override_and_then_the_policy() {
    let wider = Override::limits(policy("any", &["9/10s"])).until(in_seconds(5));
    let server = server("draft-10", &["2/1m"], wider).await;
    let raised = server.get("/").await;
    assert_eq!(draft_10(&raised), [r#""api";q=9;w=10"#, r#""api";r=8;t=10"#]);
    server.time.advance(Duration::from_secs(5));
    assert_eq!(draft_10(&server.get("/").await), [r#""api";q=2;w=60"#, r#""api";r=0;t=60"#]);
}

#[tokio::test]
async fn of_several_limits_the_one_that_decided_is_named_by_its_window() {
    let tight = Override::limits(policy("any", &["1/30s", "9/1h"]));
    let server = server("draft-10", &["2/1m", "100/1d"], tight).await;
    assert_eq!(draft_10(&server.get("/").await), [r#""api:30s";q=1;w=30"#, r#""api:30s";r=0;t=30"#]);
    let denied = server.get("/").await;
    assert_eq!((denied.status, denied.header("retry-after").as_deref()), (429, Some("30")));
    assert_eq!(denied.json()["violated-policies"][0], "api:30s");
}

#[tokio::test]
async fn three_headers_report_the_capacity_of_the_override() {
    for (format, name) in [("draft-6", "ratelimit-limit"), ("x-ratelimit", "x-ratelimit-limit")] {
        let server = server(format, &["2/1m"], Override::limits(policy("any", &["9/1m"]))).await;
        assert_eq!(server.get("/").await.header(name).as_deref(), Some("9"), "{format}");
    }
}

#[tokio::test]
async fn a_banned_client_gets_403_with_the_end_of_the_ban_and_no_quota() {
    let server = server("draft-10", &["2/1m"], Override::ban().until(in_seconds(7))).await;
    let denied = server.get("/").await;
    assert_eq!((denied.status, denied.header("retry-after").as_deref()), (403, Some("7")));
    assert_eq!(denied.header("content-type").as_deref(), Some("application/problem+json"));
    assert_eq!(denied.json()["detail"], "this client is banned: the ban ends in 7 s");
    assert_eq!(draft_10(&denied), ["", ""], "there is no quota to tell of");
    server.time.advance(Duration::from_secs(7));
    assert_eq!(server.get("/").await.status, 200);
}

#[tokio::test]
async fn a_permanent_ban_has_no_reset_in_any_format() {
    for format in ["draft-10", "draft-6", "x-ratelimit", "x-ratelimit-seconds", "off"] {
        let server = server(format, &["2/1m"], Override::ban()).await;
        let denied = server.get("/").await;
        assert_eq!((denied.status, denied.json()["title"].as_str()), (403, Some("Forbidden")), "{format}");
        assert_eq!(denied.json()["detail"], "this client is banned: waiting does not help");
        for name in ["retry-after", "ratelimit", "ratelimit-policy", "ratelimit-reset", "x-ratelimit-reset"] {
            assert_eq!(denied.header(name), None, "{name} in {format}");
        }
    }
}

#[tokio::test]
async fn an_exempt_key_is_never_denied() {
    let server = server("draft-10", &["1/1m"], Override::exempt()).await;
    for _ in 0..3 {
        let response = server.get("/").await;
        assert_eq!(
            (response.status, draft_10(&response)),
            (200, [r#""api";q=1;w=60"#, r#""api";r=1;t=0"#].map(Into::into))
        );
    }
}

#[tokio::test]
async fn with_several_policies_only_the_overridden_one_changes() {
    let (api, site_wide) = (policy("api", &["2/1m"]), policy("server", &["50/1m"]));
    let rules = [Rule::new(api.clone()), Rule::new(site_wide).key(Global)];
    let layer = RateLimitLayer::all(rules);
    let server = TestServer::serve(|limiter| hello().layer(layer.in_store(limiter))).await;
    set(&server, &api, Override::limits(policy("any", &["9/10s"])));
    assert_eq!(draft_10(&server.get("/").await), [r#""api";q=9;w=10, "server";q=50;w=60"#, r#""api";r=8;t=10"#]);
}
