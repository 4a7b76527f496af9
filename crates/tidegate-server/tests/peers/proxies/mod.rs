//! nginx, Caddy and Traefik call the service before they forward a request, as docs/proxies.md configures them.

mod chain;

use std::{path::Path, process::Command};

use self::chain::{Chain, FailureMode, Proxy, TOKENS};
use crate::tools::{peer, run};

const BY_ADDRESS: &str = "[policies.public-api]\nlimits = [\"3/1h\"]\n";
const BY_KEY: &str = "[policies.public-api]\nlimits = [\"3/1h\"]\nkey = \"header:x-api-key\"\n";

/// The headers that a browser sends with a form, and a forged address.
const BROWSER: [(&str, &str); 9] = [
    ("host", "shop.example"),
    ("origin", "https://shop.example"),
    ("cookie", "session=1"),
    ("authorization", "Bearer of-the-client"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("sec-fetch-site", "same-origin"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-dest", "document"),
    ("x-forwarded-for", "6.6.6.6"),
];

/// The headers of a CORS preflight request.
const PREFLIGHT: [(&str, &str); 4] = [
    ("host", "shop.example"),
    ("origin", "https://other.example"),
    ("access-control-request-method", "PUT"),
    ("sec-fetch-site", "cross-site"),
];

fn limits_a_browser(proxy: Proxy, failure_mode: FailureMode) {
    let chain = Chain::start(proxy, failure_mode, BY_ADDRESS);
    let body = "item=tea&note=for+two";
    let requests = [
        ("POST", "/order?a=b", &BROWSER[..], body),
        ("OPTIONS", "/order", &PREFLIGHT[..], ""),
        ("GET", "/", &[("host", "shop.example"), ("x-forwarded-for", "6.6.6.7")][..], ""),
    ];
    for (left, (method, path, headers, body)) in [2, 1, 0].into_iter().zip(requests) {
        let response = chain.request(method, path, headers, body);
        assert_eq!(response.status, 200, "{method} {path}: {response:?} {}", chain.log());
        if proxy != Proxy::Traefik {
            let expected = format!("\"public-api\";r={left};t=3600");
            assert_eq!(response.header("ratelimit"), Some(&*expected), "{response:?}");
            assert_eq!(response.header("ratelimit-policy"), Some("\"public-api\";q=3;w=3600"), "{response:?}");
        }
    }
    for forged in ["6.6.6.8", "6.6.6.9, 127.0.0.1"] {
        let headers = [("host", "shop.example"), ("x-forwarded-for", forged), ("x-real-ip", forged)];
        let denied = chain.request("POST", "/order", &headers, body);
        assert_eq!(denied.status, 429, "{denied:?}");
        let wait = denied.header("retry-after").and_then(|wait| wait.parse().ok()).unwrap_or(0);
        assert!((1..=3600).contains(&wait), "{denied:?}");
        assert!(
            denied.header("ratelimit").is_some_and(|value| value.starts_with("\"public-api\";r=0;t=")),
            "{denied:?}"
        );
    }
    let arrived = chain.upstream.take();
    let lines: Vec<_> = arrived.iter().map(|one| (&*one.method, &*one.path, &*one.body)).collect();
    assert_eq!(
        lines,
        requests.map(|(method, path, _, body)| (method, path, body)),
        "the admitted requests arrive unchanged"
    );
    for name in ["host", "origin", "cookie", "authorization"] {
        let sent = BROWSER.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        assert_eq!(arrived[0].header(name), sent, "the server receives the header of the client");
    }
}

/// `several` is the status of a request that has several keys.
fn counts_by_a_header(proxy: Proxy, failure_mode: FailureMode, several: u16) {
    let chain = Chain::start(proxy, failure_mode, BY_KEY);
    let status_of = |keys: &[&str]| {
        let headers: Vec<_> = keys.iter().map(|key| ("x-api-key", *key)).collect();
        chain.request("GET", "/", &headers, "").status
    };
    let (long, longer) = ("x".repeat(1_025), "x".repeat(4_000));
    for key in ["one", "two", &long, &longer] {
        let seen = [(); 4].map(|()| status_of(&[key]));
        assert_eq!(seen, [200, 200, 200, 429], "a key of {} bytes: {}", key.len(), chain.log());
    }
    assert_eq!(chain.upstream.take().len(), 12);
    for keys in [["one", "x1"], ["x2", "one"], ["", "one"]] {
        assert_eq!(status_of(&keys), several, "{keys:?}: {}", chain.log());
    }
    let large = "x".repeat(100_000);
    let headers = [("x-api-key", "one"), ("x-large", &large)];
    assert_ne!(chain.request("GET", "/", &headers, "").status, 200, "the key is at its limit");
    assert_eq!(chain.upstream.take().len(), 0, "no refused request arrives");
}

/// `closed` is the status of requests that a proxy does not forward.
fn decides_when_the_service_is_gone(proxy: Proxy, closed: u16) {
    for (failure_mode, expected, arrived) in [(FailureMode::Closed, closed, 0), (FailureMode::Open, 200, 5)] {
        let mut chain = Chain::start(proxy, failure_mode, BY_ADDRESS);
        let stopped = chain.stop_service();
        for _ in 0..5 {
            let response = chain.request("POST", "/order", &BROWSER, "item=tea");
            assert_eq!(response.status, expected, "{failure_mode:?}: {response:?} {}", chain.log());
            assert!(!response.headers.iter().any(|(_, value)| value.contains('{')), "{response:?}");
        }
        let requests = chain.upstream.take();
        assert_eq!(requests.len(), arrived, "{failure_mode:?}");
        assert!(requests.iter().all(|one| (&*one.method, &*one.body) == ("POST", "item=tea")), "{requests:?}");
        let tokens = if (proxy, failure_mode) == (Proxy::Traefik, FailureMode::Closed) { "" } else { TOKENS };
        chain.start_service(stopped, &format!("{tokens}{BY_ADDRESS}"));
        chain.request_until(429);
    }
}

#[test]
fn nginx_limits_a_browser() {
    limits_a_browser(Proxy::Nginx, FailureMode::Closed);
}

#[test]
fn caddy_limits_a_browser() {
    limits_a_browser(Proxy::Caddy, FailureMode::Closed);
}

#[test]
fn traefik_limits_a_browser() {
    limits_a_browser(Proxy::Traefik, FailureMode::Closed);
}

#[test]
fn proxies_that_fail_open_limit_a_browser() {
    for proxy in [Proxy::Nginx, Proxy::Caddy, Proxy::Traefik] {
        limits_a_browser(proxy, FailureMode::Open);
    }
}

#[test]
fn nginx_counts_by_a_header_of_any_length_and_refuses_several() {
    counts_by_a_header(Proxy::Nginx, FailureMode::Closed, 429);
    counts_by_a_header(Proxy::Nginx, FailureMode::Open, 429);
}

#[test]
fn caddy_counts_by_a_header_of_any_length_and_refuses_several() {
    counts_by_a_header(Proxy::Caddy, FailureMode::Closed, 400);
    counts_by_a_header(Proxy::Caddy, FailureMode::Open, 400);
}

#[test]
fn traefik_counts_by_a_header_of_any_length_and_refuses_several() {
    counts_by_a_header(Proxy::Traefik, FailureMode::Closed, 400);
    counts_by_a_header(Proxy::Traefik, FailureMode::Open, 400);
}

#[test]
fn nginx_fails_closed_or_open_as_documented() {
    decides_when_the_service_is_gone(Proxy::Nginx, 500);
}

#[test]
fn caddy_fails_closed_or_open_as_documented() {
    decides_when_the_service_is_gone(Proxy::Caddy, 502);
}

#[test]
fn traefik_fails_closed_or_open_as_documented() {
    decides_when_the_service_is_gone(Proxy::Traefik, 500);
}

#[test]
fn proxies_reject_requests_that_a_wrong_configuration_refuses() {
    let unknown = format!("{TOKENS}[policies.public-apo]\nlimits = [\"3/1h\"]\n");
    let token = format!("{}{BY_ADDRESS}", TOKENS.replace("usage-token", "other-token"));
    for (proxy, without_policy) in [(Proxy::Nginx, 500), (Proxy::Caddy, 404), (Proxy::Traefik, 404)] {
        let mut chain = Chain::start(proxy, FailureMode::Open, BY_ADDRESS);
        for (config, expected) in [(&unknown, without_policy), (&token, 401)] {
            let stopped = chain.stop_service();
            chain.start_service(stopped, config);
            let response = chain.request("GET", "/", &[], "");
            assert_eq!(response.status, expected, "{proxy:?}: {response:?} {}", chain.log());
        }
        assert_eq!(chain.upstream.take().len(), 0, "{proxy:?}");
    }
}

#[test]
fn a_real_browser_is_limited_behind_every_proxy() {
    let chains =
        [Proxy::Nginx, Proxy::Caddy, Proxy::Traefik].map(|proxy| Chain::start(proxy, FailureMode::Closed, BY_ADDRESS));
    let mut node = Command::new("node");
    node.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/proxies/browser.mjs"));
    node.args(chains.each_ref().map(|chain| chain.front.port().to_string())).env("TIDEGATE_NODE", peer("node"));
    let output = run(&mut node);
    assert_eq!(output.trim(), "3 proxies");
    for chain in &chains {
        let arrived = chain.upstream.take();
        let lines: Vec<_> = arrived.iter().map(|one| (&*one.method, &*one.path, &*one.body)).collect();
        assert_eq!(lines, [("GET", "/", ""), ("POST", "/order", "item=tea"), ("POST", "/api", "{\"item\":1}")]);
        let origin = format!("http://shop.example:{}", chain.front.port());
        assert!(arrived[1..].iter().all(|one| one.header("origin") == Some(&origin)), "{arrived:?}");
    }
}
