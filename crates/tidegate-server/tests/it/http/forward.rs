//! `/v1/forward`, which proxies call.

use super::client::{get, raw, request};
use crate::running::Running;

const CONFIG: &str = r#"
[server]
trusted_proxies = ["127.0.0.0/8"]
[policies.by-address]
limits = ["2/1m"]
[policies.by-key]
limits = ["1/1m"]
key = "header:x-api-key"
"#;

#[test]
fn the_key_comes_from_the_source_that_the_policy_names() {
    let running = Running::start(CONFIG);
    let status_of = |path: &str, headers: &[(&str, &str)]| request(running.http, "GET", path, headers, "").status;
    let path = "/v1/forward?policy=by-address";
    assert_eq!(status_of(path, &[("x-forwarded-for", "203.0.113.7")]), 200);
    assert_eq!(status_of(path, &[("x-forwarded-for", "6.6.6.6, 203.0.113.7")]), 200);
    assert_eq!(status_of(path, &[("x-forwarded-for", "9.9.9.9, 203.0.113.7")]), 429, "a forged address is ignored");
    assert_eq!(status_of(path, &[("x-forwarded-for", "203.0.113.8")]), 200);
    for address in ["2001:db8:1:1::1", "2001:db8:1:1::2"] {
        assert_eq!(status_of(path, &[("x-forwarded-for", address)]), 200);
    }
    assert_eq!(
        status_of(path, &[("x-forwarded-for", "2001:db8:1:1:ffff::3")]),
        429,
        "addresses of one network are one client"
    );
    assert_eq!(status_of(path, &[("x-forwarded-for", "2001:db8:1:2::1")]), 200);
    let path = "/v1/forward?policy=by-key";
    assert_eq!(status_of(path, &[("x-api-key", "k1")]), 200);
    assert_eq!(status_of(path, &[("x-api-key", "k2")]), 200);
    assert_eq!(status_of(path, &[("x-api-key", "k1")]), 429);
    assert_eq!(status_of(path, &[("x-forwarded-for", "203.0.113.9")]), 200);
    assert_eq!(
        status_of(path, &[("x-forwarded-for", "203.0.113.9")]),
        429,
        "without the header, the address is the key"
    );
    assert_eq!(
        status_of(path, &[("host", "shop.example"), ("origin", "https://shop.example"), ("x-api-key", "k3")]),
        200
    );
}

#[test]
fn a_denial_has_the_configured_status() {
    let running = Running::start(CONFIG);
    let headers = [("x-api-key", "k")];
    let first = request(running.http, "GET", "/v1/forward?policy=by-key&deny_status=403", &headers, "");
    assert_eq!((first.status, first.header("ratelimit")), (200, Some(r#""by-key";r=0;t=60"#)));
    let denied = request(running.http, "HEAD", "/v1/forward?policy=by-key&deny_status=403", &headers, "");
    assert_eq!(denied.status, 403);
    assert!(denied.header("retry-after").is_some() && denied.header("ratelimit-policy").is_some(), "{denied:?}");
    let never = request(running.http, "GET", "/v1/forward?policy=by-key&cost=9", &headers, "").status;
    assert_eq!(never, 429, "every denial has the same status for a proxy");
    let never = request(running.http, "GET", "/v1/forward?policy=by-key&cost=9&deny_status=403", &headers, "").status;
    assert_eq!(never, 403);
    for query in
        ["", "?policy=unknown", "?policy=by-key&deny_status=200", "?policy=by-key&cost=0", "?policy=by-key&x=y"]
    {
        let status = get(running.http, &format!("/v1/forward{query}")).status;
        assert!(status == 400 || status == 404, "{query} gives {status}");
    }
}

/// Returns the number of requests refused over HTTP.
fn refused(running: &Running) -> u64 {
    let metrics = get(running.http, "/metrics");
    let metrics = String::from_utf8(metrics.body).expect("it is text");
    let line = metrics.lines().find(|line| line.starts_with("tidegate_refused_total{transport=\"http\"}"));
    line.and_then(|line| line.rsplit(' ').next()).and_then(|count| count.parse().ok()).expect("a counter")
}

#[test]
fn forwarded_requests_may_have_any_host_origin_and_method() {
    let running = Running::start("[policies.public-api]\nlimits = [\"10/1m\"]\n");
    let browser = [
        ("host", "shop.example"),
        ("origin", "https://other.example"),
        ("cookie", "session=1"),
        ("sec-fetch-site", "cross-site"),
        ("content-type", "text/plain"),
    ];
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let response = request(running.http, method, "/v1/forward?policy=public-api", &browser, "");
        assert_eq!(response.status, 200, "{method}: {response:?}");
    }
    assert_eq!(refused(&running), 0);
}

#[test]
fn a_long_key_header_is_counted_by_its_digest() {
    let running = Running::start(CONFIG);
    let long = "x".repeat(1025);
    let (other, longer) = (format!("{}y", &long[1..]), "x".repeat(20_000));
    for value in [&long, &other, &longer] {
        let send = || request(running.http, "GET", "/v1/forward?policy=by-key", &[("x-api-key", value)], "");
        assert_eq!([send().status, send().status], [200, 429], "{} bytes", value.len());
    }
    let bytes = |key: &[u8]| {
        let head = b"GET /v1/forward?policy=by-key HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-api-key: ";
        let response = raw(running.http, &[&head[..], key, b"\r\n\r\n"].concat());
        String::from_utf8_lossy(&response[9..12]).into_owned()
    };
    assert_eq!([bytes(b"\xff\xfe"), bytes(b"\xff\xfe"), bytes(b"\xff\xfd")], ["200", "429", "200"], "any bytes");
    assert_eq!([bytes(b""), bytes(b"")], ["200", "429"], "an empty header is counted by the address");
    assert_eq!(refused(&running), 0);
}

#[test]
fn several_values_of_the_key_header_are_refused() {
    let running = Running::start(CONFIG);
    let keys = |values: [&'static str; 2]| values.map(|value| ("x-api-key", value));
    for values in [["k", "x1"], ["x2", "k"], ["k", "k"], ["", "k"]] {
        let plain = request(running.http, "GET", "/v1/forward?policy=by-key", &keys(values), "");
        assert_eq!((plain.status, &plain.json()["field"]), (400, &"key".into()), "{values:?}");
        let path = "/v1/forward?policy=by-key&deny_status=403";
        assert_eq!(request(running.http, "GET", path, &keys(values), "").status, 403, "a denial: {values:?}");
    }
    assert_eq!(refused(&running), 8);
    assert_eq!(request(running.http, "GET", "/v1/forward?policy=by-key", &[("x-api-key", "k")], "").status, 200);
    assert_eq!(refused(&running), 8, "a decision is not a refusal");
}

#[test]
fn every_refusal_is_counted_once() {
    let config = format!("{CONFIG}\n[policies.by-key.operations]\nread = 1\n");
    let running = Running::start(&config);
    for (refusals, query) in [
        "",
        "?policy=unknown",
        "?policy=by-key&deny_status=200",
        "?policy=by-key&cost=0",
        "?policy=by-key&x=y",
        "?policy=by-key&policy=by-key",
        "?policy=by-key&operation=write",
        "?policy=by-key&operation=read&cost=1",
    ]
    .into_iter()
    .enumerate()
    {
        let status = get(running.http, &format!("/v1/forward{query}")).status;
        assert!(status == 400 || status == 404, "{query} gives {status}");
        assert_eq!(refused(&running), refusals as u64 + 1, "{query}");
    }
}
