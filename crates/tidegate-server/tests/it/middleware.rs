//! The policies of a configuration in a middleware layer use the same keys as the service.

use std::net::IpAddr;

use axum::{Router, body::Body, http::Request, response::Response, routing::get};
use tidegate_server::config::{Config, SettingSources};
use tidegate_tower::{PeerAddress, RateLimitLayer, Rule};
use tower::ServiceExt as _;

use crate::{http::client, running::Running};

const CONFIG: &str = r#"
[server]
trusted_proxies = ["127.0.0.0/8"]
ipv6_prefix = 56
[policies.by-address]
limits = ["2/1m"]
[policies.by-key]
limits = ["1/1m", "3/1d"]
key = "header:x-api-key"
"#;

/// A router behind one of the configuration's policies.
fn limited(name: &str) -> Router {
    let config = Config::parse("test.toml", CONFIG, &SettingSources::default()).expect("a valid configuration");
    let configured = config.policies.get(name).expect("it exists");
    let rule = Rule::new(configured.policy.clone()).key(configured.key.clone());
    let layer = RateLimitLayer::new(rule).client_address(config.server.forwarding.client);
    Router::new().route("/", get(|| async { "hello" })).layer(layer)
}

fn send(running: &Running, router: &Router, headers: &[(&str, &str)]) -> Response {
    let mut request = Request::get("/").extension(PeerAddress(IpAddr::from([127, 0, 0, 1])));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).expect("a request");
    running.block_on(router.clone().oneshot(request)).expect("a router never fails")
}

#[test]
fn a_layer_and_the_service_use_the_same_keys() {
    let running = Running::start(CONFIG);
    let (key, from) = ("x-api-key", "x-forwarded-for");
    let by_key: &[&[(&str, &str)]] = &[
        &[(key, "k1")],
        &[(key, "k2")],
        &[(key, "k1"), (from, "203.0.113.9")],
        &[(from, "203.0.113.9")],
        &[(from, "203.0.113.9")],
        &[(key, ""), (from, "203.0.113.9")],
        &[(key, "203.0.113.9")],
        &[],
        &[(key, "k2"), (key, "k3")],
    ];
    let by_address: &[&[(&str, &str)]] = &[
        &[(from, "203.0.113.7")],
        &[(from, "6.6.6.6, 203.0.113.7")],
        &[(from, "9.9.9.9, 203.0.113.7"), (key, "k1")],
        &[(from, "2001:db8:1:1::1")],
        &[(from, "[2001:db8:1:2::1]:443")],
        &[(from, "2001:db8:1:3::1")],
        &[(from, "2001:db8:1:1000::1")],
        &[],
    ];
    let expected = [("by-key", by_key, "++-+--++!"), ("by-address", by_address, "++-++-++")];
    for (name, requests, expected) in expected {
        let router = limited(name);
        let path = format!("/v1/forward?policy={name}");
        for (headers, expected) in requests.iter().zip(expected.chars()) {
            let from_service = client::request(running.http, "GET", &path, headers, "");
            let from_layer = send(&running, &router, headers);
            let expected = match expected {
                '+' => 200,
                '-' => 429,
                _ => 400,
            };
            assert_eq!((from_service.status, from_layer.status().as_u16()), (expected, expected), "{name} {headers:?}");
            let header = |name| from_layer.headers().get(name).map(|value| value.to_str().expect("a text"));
            assert_eq!(from_service.header("ratelimit-policy"), header("ratelimit-policy"), "{name} {headers:?}");
            let left = |value: Option<&str>| value.and_then(|text| Some(text.split_once(";t=")?.0.to_owned()));
            assert_eq!(left(from_service.header("ratelimit")), left(header("ratelimit")), "{name} {headers:?}");
        }
    }
}
