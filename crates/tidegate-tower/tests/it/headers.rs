//! The quota headers.

use std::time::Duration;

use axum::{Router, routing::get};
use sfv::{BareItem, List, ListEntry, Parser};
use tidegate::{Algorithm, Mode, Policy};
use tidegate_tower::{HeaderFormat, RateLimitLayer, Rule, key::Global};

use crate::test_server::{START, TestResponse, TestServer, policy};

const DRAFT_10: [&str; 2] = ["ratelimit-policy", "ratelimit"];
const DRAFT_6: [&str; 3] = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
const X: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

/// The quota headers of a response, in a fixed order.
fn quota_headers(response: &TestResponse) -> Vec<(&str, String)> {
    let known = ["retry-after"].into_iter().chain(DRAFT_10).chain(DRAFT_6).chain(X);
    known.filter_map(|name| Some((name, response.header(name)?))).collect()
}

fn layer(format: &str) -> RateLimitLayer {
    RateLimitLayer::new(policy("api", &["2/1m"])).headers(format.parse().expect("a format"))
}

/// An admitted request, another one 10.5 seconds later, and a denied one 0.25 seconds after that.
async fn three_responses(format: &str) -> [TestResponse; 3] {
    let server = TestServer::behind(layer(format)).await;
    let first = server.get("/").await;
    server.time.advance(Duration::from_millis(10_500));
    let second = server.get("/").await;
    server.time.advance(Duration::from_millis(250));
    let third = server.get("/").await;
    assert_eq!([first.status, second.status, third.status], [200, 200, 429]);
    [first, second, third]
}

fn three_headers(names: [&'static str; 3], values: [u64; 3]) -> Vec<(&'static str, String)> {
    names.into_iter().zip(values.map(|value| value.to_string())).collect()
}

/// The three headers of a denial, and `Retry-After`.
fn denied_headers(names: [&'static str; 3], values: [u64; 3]) -> Vec<(&'static str, String)> {
    let mut all = vec![("retry-after", "50".to_owned())];
    all.extend(three_headers(names, values));
    all
}

#[tokio::test]
async fn draft_10_reports_policy_and_quota() {
    let [first, second, third] = three_responses("draft-10").await;
    let all =
        |policy: &str, quota: &str| vec![("ratelimit-policy", policy.to_owned()), ("ratelimit", quota.to_owned())];
    assert_eq!(quota_headers(&first), all(r#""api";q=2;w=60"#, r#""api";r=1;t=60"#));
    assert_eq!(quota_headers(&second), all(r#""api";q=2;w=60"#, r#""api";r=0;t=60"#));
    let mut denied = vec![("retry-after", "50".to_owned())];
    denied.extend(all(r#""api";q=2;w=60"#, r#""api";r=0;t=50"#));
    assert_eq!(quota_headers(&third), denied, "49.25 seconds are 50");
}

#[tokio::test]
async fn draft_6_reports_seconds_to_wait() {
    let [first, second, third] = three_responses("draft-6").await;
    assert_eq!(quota_headers(&first), three_headers(DRAFT_6, [2, 1, 60]));
    assert_eq!(quota_headers(&second), three_headers(DRAFT_6, [2, 0, 60]));
    assert_eq!(quota_headers(&third), denied_headers(DRAFT_6, [2, 0, 50]));
}

#[tokio::test]
async fn x_ratelimit_reports_the_time_of_the_reset() {
    let [first, second, third] = three_responses("x-ratelimit").await;
    assert_eq!(quota_headers(&first), three_headers(X, [2, 1, START + 60]));
    assert_eq!(quota_headers(&second), three_headers(X, [2, 0, START + 71]), "half a second is rounded up");
    assert_eq!(
        quota_headers(&third),
        denied_headers(X, [2, 0, START + 60]),
        "the time at which the first request expires"
    );
}

#[tokio::test]
async fn x_ratelimit_seconds_reports_seconds_to_wait() {
    let [first, second, third] = three_responses("x-ratelimit-seconds").await;
    assert_eq!(quota_headers(&first), three_headers(X, [2, 1, 60]));
    assert_eq!(quota_headers(&second), three_headers(X, [2, 0, 60]));
    assert_eq!(quota_headers(&third), denied_headers(X, [2, 0, 50]));
}

#[tokio::test]
async fn off_sends_only_retry_after_with_denials() {
    let [first, second, third] = three_responses("off").await;
    assert_eq!((quota_headers(&first), quota_headers(&second)), (vec![], vec![]));
    assert_eq!(quota_headers(&third), [("retry-after", "50".to_owned())]);
}

/// The items of a structured list: the string of each, and its parameters as numbers.
fn items(response: &TestResponse, name: &str) -> Vec<(String, Vec<(String, i64)>)> {
    let text = response.header(name).unwrap_or_else(|| panic!("{name} is missing: {response:?}"));
    let list: List = Parser::new(&text).parse().unwrap_or_else(|error| panic!("{text} is no list: {error}"));
    let item = |entry: ListEntry| {
        let ListEntry::Item(item) = entry else { panic!("{text} has a list within") };
        let BareItem::String(item_name) = item.bare_item else { panic!("{text} names by something else than a text") };
        let number = |(key, value): (sfv::Key, BareItem)| match value {
            BareItem::Integer(number) => (key.to_string(), i64::from(number)),
            other => panic!("{text} has {other:?} for {key}"),
        };
        (item_name.to_string(), item.params.into_iter().map(number).collect())
    };
    list.into_iter().map(item).collect()
}

fn item(name: &str, parameters: &[(&str, i64)]) -> (String, Vec<(String, i64)>) {
    (name.to_owned(), parameters.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect())
}

#[tokio::test]
async fn draft_10_is_a_structured_field() {
    for policy in [
        policy("api", &["1/1m"]),
        policy("weird!#$%&'()*+,-./:;<=>?@[]^_`{|}~", &["1/1m"]),
        policy("most", &["1000000000000/366d"]),
    ] {
        let name = policy.name().expect("it has one").to_owned();
        let (max, window) = (policy.limits()[0].max().cast_signed(), policy.limits()[0].window().as_secs());
        let server = TestServer::behind(RateLimitLayer::new(policy)).await;
        let first = server.get("/").await;
        let window = window.cast_signed();
        assert_eq!(items(&first, "ratelimit-policy"), [item(&name, &[("q", max), ("w", window)])]);
        assert_eq!(items(&first, "ratelimit"), [item(&name, &[("r", max - 1), ("t", window)])]);
    }
    let unnamed = Policy::unnamed(["1/1m".parse().expect("a limit")]).expect("a policy");
    let server = TestServer::behind(RateLimitLayer::new(unnamed)).await;
    for _ in 0..2 {
        let response = server.get("/").await;
        assert_eq!(items(&response, "ratelimit-policy"), [item("1/1m", &[("q", 1), ("w", 60)])]);
        assert_eq!(items(&response, "ratelimit"), [item("1/1m", &[("r", 0), ("t", 60)])]);
    }
}

#[tokio::test]
async fn several_limits_are_named_by_window_and_the_one_that_decided_is_reported() {
    let server = TestServer::behind(RateLimitLayer::new(policy("login", &["2/1m", "3/1d"]))).await;
    let policies = [item("login:1m", &[("q", 2), ("w", 60)]), item("login:1d", &[("q", 3), ("w", 86_400)])];
    let mut quotas = Vec::new();
    for _ in 0..3 {
        let response = server.get("/").await;
        assert_eq!(items(&response, "ratelimit-policy"), policies);
        quotas.extend(items(&response, "ratelimit"));
    }
    server.time.advance(Duration::from_secs(60));
    let fourth = server.get("/").await;
    quotas.extend(items(&fourth, "ratelimit"));
    let fifth = server.get("/").await;
    quotas.extend(items(&fifth, "ratelimit"));
    assert_eq!((fourth.status, fifth.status, fifth.header("retry-after").as_deref()), (200, 429, Some("86340")));
    let expected = [
        item("login:1m", &[("r", 1), ("t", 60)]),
        item("login:1m", &[("r", 0), ("t", 60)]),
        item("login:1m", &[("r", 0), ("t", 60)]),
        item("login:1d", &[("r", 0), ("t", 86_400)]),
        item("login:1d", &[("r", 0), ("t", 86_340)]),
    ];
    assert_eq!(quotas, expected);
}

#[tokio::test]
async fn a_window_below_a_second_has_no_w_and_a_fraction_is_rounded_up() {
    for (limit, expected) in
        [("5/500ms", r#""api";q=5"#), ("5/1500ms", r#""api";q=5;w=2"#), ("5/1s", r#""api";q=5;w=1"#)]
    {
        let server = TestServer::behind(RateLimitLayer::new(policy("api", &[limit]))).await;
        assert_eq!(server.get("/").await.header("ratelimit-policy").as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn the_reported_limit_is_the_capacity() {
    let bursting = policy("api", &["60/1m"]).with_algorithm("gcra:5".parse().expect("an algorithm"));
    let server = TestServer::behind(RateLimitLayer::new(bursting.clone())).await;
    let response = server.get("/").await;
    assert_eq!(response.header("ratelimit-policy").as_deref(), Some(r#""api";q=5;w=60"#));
    assert_eq!(response.header("ratelimit").as_deref(), Some(r#""api";r=4;t=1"#));
    let server = TestServer::behind(RateLimitLayer::new(bursting).headers(HeaderFormat::Draft6)).await;
    assert_eq!(quota_headers(&server.get("/").await), three_headers(DRAFT_6, [5, 4, 1]));
}

#[tokio::test]
async fn a_client_that_waits_is_admitted_by_every_algorithm() {
    for algorithm in ["sliding_log", "sliding_counter", "sliding_buckets:7", "fixed_window", "gcra"] {
        let algorithm: Algorithm = algorithm.parse().expect("an algorithm");
        let server = TestServer::behind(RateLimitLayer::new(policy("api", &["3/10s"]).with_algorithm(algorithm))).await;
        let mut denials = 0;
        for step in 0..60_u64 {
            server.time.advance(Duration::from_micros(step * 41_977));
            let response = server.get("/").await;
            if response.status == 200 {
                assert_eq!(response.header("retry-after"), None);
                continue;
            }
            denials += 1;
            let wait = response.header("retry-after").expect("a wait").parse().expect("whole seconds");
            assert!(wait >= 1);
            server.time.advance(Duration::from_secs(wait));
            assert_eq!(server.get("/").await.status, 200, "{algorithm} after {wait} s, at step {step}");
        }
        assert!(denials > 5, "{algorithm} denied {denials}");
    }
}

#[tokio::test]
async fn a_wait_below_a_second_is_one() {
    let server = TestServer::behind(RateLimitLayer::new(policy("api", &["1/5ms"]))).await;
    assert_eq!(server.get("/").await.status, 200);
    let denied = server.get("/").await;
    assert_eq!((denied.status, denied.header("retry-after").as_deref()), (429, Some("1")));
}

/// A router with the policy `outer` and a route with the policy `inner`.
async fn nested(outer: Policy, inner: Policy, format: HeaderFormat) -> TestServer {
    TestServer::serve(|limiter| {
        let inner = RateLimitLayer::new(inner).headers(format).in_store(limiter.clone());
        let outer = RateLimitLayer::new(outer).headers(format).in_store(limiter);
        Router::new()
            .route("/login", get(|| async { "hello" }).layer(inner))
            .route("/", get(|| async { "hello" }))
            .layer(outer)
    })
    .await
}

#[tokio::test]
async fn draft_10_reports_all_nested_layers() {
    let server = nested(policy("all", &["5/1m"]), policy("login", &["1/1h"]), HeaderFormat::Draft10).await;
    let both = [item("login", &[("q", 1), ("w", 3600)]), item("all", &[("q", 5), ("w", 60)])];
    let first = server.get("/login").await;
    assert_eq!(items(&first, "ratelimit-policy"), both);
    let quotas = [item("login", &[("r", 0), ("t", 3600)]), item("all", &[("r", 4), ("t", 60)])];
    assert_eq!(items(&first, "ratelimit"), quotas);
    let denied = server.get("/login").await;
    assert_eq!((denied.status, denied.header("retry-after").as_deref()), (429, Some("3600")));
    assert_eq!(items(&denied, "ratelimit-policy"), both, "the outer layer admitted it and reports so");
    let elsewhere = server.get("/").await;
    assert_eq!(items(&elsewhere, "ratelimit"), [item("all", &[("r", 2), ("t", 60)])]);
}

#[tokio::test]
async fn single_valued_headers_report_the_tighter_layer() {
    for (format, names) in [(HeaderFormat::Draft6, DRAFT_6), (HeaderFormat::XRateLimitSeconds, X)] {
        let server = nested(policy("all", &["5/1m"]), policy("login", &["3/1h"]), format).await;
        assert_eq!(quota_headers(&server.get("/login").await), three_headers(names, [3, 2, 3600]), "the inner one");
        assert_eq!(quota_headers(&server.get("/").await), three_headers(names, [5, 3, 60]));
        assert_eq!(quota_headers(&server.get("/").await), three_headers(names, [5, 2, 60]));
        assert_eq!(
            quota_headers(&server.get("/login").await),
            three_headers(names, [3, 1, 3600]),
            "as little is left by the outer one"
        );
        server.get("/").await;
        server.time.advance(Duration::from_secs(60));
        for left in [4, 3, 2, 1] {
            assert_eq!(quota_headers(&server.get("/").await), three_headers(names, [5, left, 60]));
        }
        assert_eq!(quota_headers(&server.get("/login").await), three_headers(names, [3, 0, 3600]));
    }
    let server = nested(policy("all", &["2/1m"]), policy("login", &["3/1h"]), HeaderFormat::Draft6).await;
    assert_eq!(quota_headers(&server.get("/login").await), three_headers(DRAFT_6, [2, 1, 60]), "the outer one");
}

#[tokio::test]
async fn jitter_is_random_within_its_maximum_and_never_shortens_a_wait() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let layer =
        RateLimitLayer::new(policy("api", &["1/1m"])).jitter(Duration::from_secs(10)).denial_response(move |denial| {
            let truth = denial.decision().retry_after().expect("it is limited");
            sender.send((truth, denial.retry_after().expect("it is limited"))).expect("the receiver exists");
            http::Response::new(bytes::Bytes::new())
        });
    let server = TestServer::behind(layer).await;
    server.get("/").await;
    server.time.advance(Duration::from_micros(500_001));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let denied = server.get("/").await;
        let (truth, wait) = receiver.try_recv().expect("it was denied");
        assert_eq!(truth, Duration::from_micros(59_499_999));
        assert!((truth..=truth + Duration::from_secs(10)).contains(&wait), "{wait:?}");
        let seconds: u64 = denied.header("retry-after").expect("a wait").parse().expect("whole seconds");
        assert_eq!(u128::from(seconds), wait.as_micros().div_ceil(1_000_000), "{wait:?}");
        let quota = items(&denied, "ratelimit");
        assert_eq!(quota, [item("api", &[("r", 0), ("t", seconds.cast_signed())])]);
        seen.insert(wait);
    }
    assert!(seen.len() > 1, "always {seen:?}");
}

#[tokio::test]
async fn a_shadow_policy_denies_nothing_and_is_visible_only_to_on_decision() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let watching = policy("new", &["1/1m"]).with_mode(Mode::Shadow);
    let layer = RateLimitLayer::new(watching).on_decision(move |event| {
        let policy = event.policy.name().map(str::to_owned);
        let path = event.request.uri().path().to_owned();
        sender.send((path, policy, event.decision.reason().as_str())).expect("the receiver exists");
    });
    let server = TestServer::behind(layer).await;
    for (path, reason) in [("/a", "allowed"), ("/b", "shadow"), ("/c", "shadow")] {
        let response = server.get(path).await;
        assert_eq!((response.status, quota_headers(&response)), (200, vec![]));
        assert_eq!(receiver.try_recv(), Ok((path.to_owned(), Some("new".to_owned()), reason)));
    }
}

#[tokio::test]
async fn a_shadow_policy_does_not_hide_an_enforced_one() {
    let rules = || {
        let watching = policy("new", &["1/1m"]).with_mode(Mode::Shadow);
        [policy("api", &["3/1h"]), watching].map(|policy| Rule::new(policy).key(Global))
    };
    let server = TestServer::behind(RateLimitLayer::all(rules())).await;
    for left in [2, 1, 0] {
        let response = server.get("/").await;
        assert_eq!(items(&response, "ratelimit-policy"), [item("api", &[("q", 3), ("w", 3600)])]);
        assert_eq!(items(&response, "ratelimit"), [item("api", &[("r", left), ("t", 3600)])]);
    }
    let denied = server.get("/").await;
    assert_eq!((denied.status, denied.header("retry-after").as_deref()), (429, Some("3600")));
    assert_eq!(items(&denied, "ratelimit"), [item("api", &[("r", 0), ("t", 3600)])]);
}

#[test]
fn seconds_are_rounded_up_and_saturate() {
    assert_eq!(tidegate_tower::ceil_seconds(Duration::from_nanos(1)), 1);
    assert_eq!(tidegate_tower::ceil_seconds(Duration::MAX), u64::MAX);
}
