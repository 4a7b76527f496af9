//! What proxies ask.

use super::client::{get, request};
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
fn the_key_is_found_where_the_policy_says() {
    let running = Running::start(CONFIG);
    let ask = |path: &str, headers: &[(&str, &str)]| request(running.http, "GET", path, headers, "").status;
    let path = "/v1/forward?policy=by-address";
    assert_eq!(ask(path, &[("x-forwarded-for", "203.0.113.7")]), 200);
    assert_eq!(ask(path, &[("x-forwarded-for", "6.6.6.6, 203.0.113.7")]), 200);
    assert_eq!(
        ask(path, &[("x-forwarded-for", "9.9.9.9, 203.0.113.7")]),
        429,
        "what a client forged counts for nothing"
    );
    assert_eq!(ask(path, &[("x-forwarded-for", "203.0.113.8")]), 200);
    for address in ["2001:db8:1:1::1", "2001:db8:1:1::2"] {
        assert_eq!(ask(path, &[("x-forwarded-for", address)]), 200);
    }
    assert_eq!(ask(path, &[("x-forwarded-for", "2001:db8:1:1:ffff::3")]), 429, "one network is one client");
    assert_eq!(ask(path, &[("x-forwarded-for", "2001:db8:1:2::1")]), 200);
    let path = "/v1/forward?policy=by-key";
    assert_eq!(ask(path, &[("x-api-key", "k1")]), 200);
    assert_eq!(ask(path, &[("x-api-key", "k2")]), 200);
    assert_eq!(ask(path, &[("x-api-key", "k1")]), 429);
    assert_eq!(ask(path, &[("x-forwarded-for", "203.0.113.9")]), 200);
    assert_eq!(ask(path, &[("x-forwarded-for", "203.0.113.9")]), 429, "without the header, by address");
    assert_eq!(ask(path, &[("host", "shop.example"), ("origin", "https://shop.example"), ("x-api-key", "k3")]), 200);
}

#[test]
fn a_denial_can_have_the_status_that_a_proxy_understands() {
    let running = Running::start(CONFIG);
    let headers = [("x-api-key", "k")];
    let first = request(running.http, "GET", "/v1/forward?policy=by-key&deny_status=403", &headers, "");
    assert_eq!((first.status, first.header("ratelimit")), (200, Some(r#""by-key";r=0;t=60"#)));
    let denied = request(running.http, "HEAD", "/v1/forward?policy=by-key&deny_status=403", &headers, "");
    assert_eq!(denied.status, 403);
    assert!(denied.header("retry-after").is_some() && denied.header("ratelimit-policy").is_some(), "{denied:?}");
    let never = request(running.http, "GET", "/v1/forward?policy=by-key&cost=9", &headers, "").status;
    assert_eq!(never, 429, "a proxy knows no more than yes and no");
    let never = request(running.http, "GET", "/v1/forward?policy=by-key&cost=9&deny_status=403", &headers, "").status;
    assert_eq!(never, 403);
    for query in ["", "?policy=nobody", "?policy=by-key&deny_status=200", "?policy=by-key&cost=0", "?policy=by-key&x=y"]
    {
        let status = get(running.http, &format!("/v1/forward{query}")).status;
        assert!(status == 400 || status == 404, "{query} gives {status}");
    }
}
