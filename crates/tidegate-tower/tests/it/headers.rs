//! The headers that tell a client where it stands.

use std::time::Duration;

use axum::{Router, routing::get};
use sfv::{BareItem, List, ListEntry, Parser};
use tidegate::{Algorithm, Mode, Policy};
use tidegate_tower::{HeaderFormat, KeyExtractor, RateLimitLayer, Rule};

use crate::site::{Answer, START, Site, policy};

const DRAFT_10: [&str; 2] = ["ratelimit-policy", "ratelimit"];
const DRAFT_6: [&str; 3] = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
const X: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

/// The headers of this crate that an answer has, sorted.
fn told(answer: &Answer) -> Vec<(&str, String)> {
    let known = ["retry-after"].into_iter().chain(DRAFT_10).chain(DRAFT_6).chain(X);
    known.filter_map(|name| Some((name, answer.header(name)?))).collect()
}

fn layer(dialect: &str) -> RateLimitLayer {
    RateLimitLayer::new(policy("api", &["2/1m"])).headers(dialect.parse().expect("a dialect"))
}

/// One that is let through, one more ten and a half seconds later, and one a quarter of a second after it that is denied.
async fn three_answers(dialect: &str) -> [Answer; 3] {
    let site = Site::behind(layer(dialect)).await;
    let first = site.get("/").await;
    site.time.advance(Duration::from_millis(10_500));
    let second = site.get("/").await;
    site.time.advance(Duration::from_millis(250));
    let third = site.get("/").await;
    assert_eq!([first.status, second.status, third.status], [200, 200, 429]);
    [first, second, third]
}

fn three(names: [&'static str; 3], values: [u64; 3]) -> Vec<(&'static str, String)> {
    names.into_iter().zip(values.map(|value| value.to_string())).collect()
}

/// The same of a denial.
fn denied(names: [&'static str; 3], values: [u64; 3]) -> Vec<(&'static str, String)> {
    let mut all = vec![("retry-after", "50".to_owned())];
    all.extend(three(names, values));
    all
}

#[tokio::test]
async fn draft_10_tells_policy_and_standing() {
    let [first, second, third] = three_answers("draft-10").await;
    let all = |policy: &str, standing: &str| {
        vec![("ratelimit-policy", policy.to_owned()), ("ratelimit", standing.to_owned())]
    };
    assert_eq!(told(&first), all(r#""api";q=2;w=60"#, r#""api";r=1;t=60"#));
    assert_eq!(told(&second), all(r#""api";q=2;w=60"#, r#""api";r=0;t=60"#));
    let mut denied = vec![("retry-after", "50".to_owned())];
    denied.extend(all(r#""api";q=2;w=60"#, r#""api";r=0;t=50"#));
    assert_eq!(told(&third), denied, "49.25 seconds are 50");
}

#[tokio::test]
async fn draft_6_tells_seconds_to_wait() {
    let [first, second, third] = three_answers("draft-6").await;
    assert_eq!(told(&first), three(DRAFT_6, [2, 1, 60]));
    assert_eq!(told(&second), three(DRAFT_6, [2, 0, 60]));
    assert_eq!(told(&third), denied(DRAFT_6, [2, 0, 50]));
}

#[tokio::test]
async fn x_ratelimit_tells_the_time_when_to_come_back() {
    let [first, second, third] = three_answers("x-ratelimit").await;
    assert_eq!(told(&first), three(X, [2, 1, START + 60]));
    assert_eq!(told(&second), three(X, [2, 0, START + 71]), "half a second is rounded up");
    assert_eq!(told(&third), denied(X, [2, 0, START + 60]), "the moment when the first is forgotten");
}

#[tokio::test]
async fn x_ratelimit_seconds_tells_seconds_to_wait() {
    let [first, second, third] = three_answers("x-ratelimit-seconds").await;
    assert_eq!(told(&first), three(X, [2, 1, 60]));
    assert_eq!(told(&second), three(X, [2, 0, 60]));
    assert_eq!(told(&third), denied(X, [2, 0, 50]));
}

#[tokio::test]
async fn off_tells_only_the_denied_when_to_come_back() {
    let [first, second, third] = three_answers("off").await;
    assert_eq!((told(&first), told(&second)), (vec![], vec![]));
    assert_eq!(told(&third), [("retry-after", "50".to_owned())]);
}

/// The items of a list of strings: each one's text, and its parameters as numbers.
fn items(answer: &Answer, name: &str) -> Vec<(String, Vec<(String, i64)>)> {
    let text = answer.header(name).unwrap_or_else(|| panic!("{name} is told: {answer:?}"));
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
        let site = Site::behind(RateLimitLayer::new(policy)).await;
        let first = site.get("/").await;
        let window = window.cast_signed();
        assert_eq!(items(&first, "ratelimit-policy"), [item(&name, &[("q", max), ("w", window)])]);
        assert_eq!(items(&first, "ratelimit"), [item(&name, &[("r", max - 1), ("t", window)])]);
    }
    let unnamed = Policy::unnamed(["1/1m".parse().expect("a limit")]).expect("a policy");
    let site = Site::behind(RateLimitLayer::new(unnamed)).await;
    for _ in 0..2 {
        let answer = site.get("/").await;
        assert_eq!(items(&answer, "ratelimit-policy"), [item("1/1m", &[("q", 1), ("w", 60)])]);
        assert_eq!(items(&answer, "ratelimit"), [item("1/1m", &[("r", 0), ("t", 60)])]);
    }
}

#[tokio::test]
async fn several_limits_are_told_by_name_and_window_and_the_one_that_bound_by_its_own() {
    let site = Site::behind(RateLimitLayer::new(policy("login", &["2/1m", "3/1d"]))).await;
    let policies = [item("login:1m", &[("q", 2), ("w", 60)]), item("login:1d", &[("q", 3), ("w", 86_400)])];
    let mut standings = Vec::new();
    for _ in 0..3 {
        let answer = site.get("/").await;
        assert_eq!(items(&answer, "ratelimit-policy"), policies);
        standings.extend(items(&answer, "ratelimit"));
    }
    site.time.advance(Duration::from_secs(60));
    let fourth = site.get("/").await;
    standings.extend(items(&fourth, "ratelimit"));
    let fifth = site.get("/").await;
    standings.extend(items(&fifth, "ratelimit"));
    assert_eq!((fourth.status, fifth.status, fifth.header("retry-after").as_deref()), (200, 429, Some("86340")));
    let expected = [
        item("login:1m", &[("r", 1), ("t", 60)]),
        item("login:1m", &[("r", 0), ("t", 60)]),
        item("login:1m", &[("r", 0), ("t", 60)]),
        item("login:1d", &[("r", 0), ("t", 86_400)]),
        item("login:1d", &[("r", 0), ("t", 86_340)]),
    ];
    assert_eq!(standings, expected);
}

#[tokio::test]
async fn a_window_below_a_second_has_no_w_and_a_broken_one_is_rounded_up() {
    for (limit, expected) in
        [("5/500ms", r#""api";q=5"#), ("5/1500ms", r#""api";q=5;w=2"#), ("5/1s", r#""api";q=5;w=1"#)]
    {
        let site = Site::behind(RateLimitLayer::new(policy("api", &[limit]))).await;
        assert_eq!(site.get("/").await.header("ratelimit-policy").as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn the_limit_told_is_what_can_be_in_use_at_once() {
    let bursting = policy("api", &["60/1m"]).with_algorithm("gcra:5".parse().expect("an algorithm"));
    let site = Site::behind(RateLimitLayer::new(bursting.clone())).await;
    let answer = site.get("/").await;
    assert_eq!(answer.header("ratelimit-policy").as_deref(), Some(r#""api";q=5;w=60"#));
    assert_eq!(answer.header("ratelimit").as_deref(), Some(r#""api";r=4;t=1"#));
    let site = Site::behind(RateLimitLayer::new(bursting).headers(HeaderFormat::Draft6)).await;
    assert_eq!(told(&site.get("/").await), three(DRAFT_6, [5, 4, 1]));
}

#[tokio::test]
async fn who_waits_as_long_as_told_is_admitted_by_every_algorithm() {
    for algorithm in ["sliding_log", "sliding_counter", "sliding_buckets:7", "fixed_window", "gcra"] {
        let algorithm: Algorithm = algorithm.parse().expect("an algorithm");
        let site = Site::behind(RateLimitLayer::new(policy("api", &["3/10s"]).with_algorithm(algorithm))).await;
        let mut denials = 0;
        for step in 0..60_u64 {
            site.time.advance(Duration::from_micros(step * 41_977));
            let answer = site.get("/").await;
            if answer.status == 200 {
                assert_eq!(answer.header("retry-after"), None);
                continue;
            }
            denials += 1;
            let wait = answer.header("retry-after").expect("it is told when").parse().expect("whole seconds");
            assert!(wait >= 1);
            site.time.advance(Duration::from_secs(wait));
            assert_eq!(site.get("/").await.status, 200, "{algorithm} after {wait} s, at step {step}");
        }
        assert!(denials > 5, "{algorithm} denied {denials}");
    }
}

#[tokio::test]
async fn a_wait_below_a_second_is_one() {
    let site = Site::behind(RateLimitLayer::new(policy("api", &["1/5ms"]))).await;
    assert_eq!(site.get("/").await.status, 200);
    let denied = site.get("/").await;
    assert_eq!((denied.status, denied.header("retry-after").as_deref()), (429, Some("1")));
}

/// A router behind `outer` with a route behind `inner`.
async fn nested(outer: Policy, inner: Policy, dialect: HeaderFormat) -> Site {
    Site::serve(|limiter| {
        let inner = RateLimitLayer::new(inner).headers(dialect).in_store(limiter.clone());
        let outer = RateLimitLayer::new(outer).headers(dialect).in_store(limiter);
        Router::new()
            .route("/login", get(|| async { "hello" }).layer(inner))
            .route("/", get(|| async { "hello" }))
            .layer(outer)
    })
    .await
}

#[tokio::test]
async fn layers_around_each_other_are_all_told_in_draft_10() {
    let site = nested(policy("all", &["5/1m"]), policy("login", &["1/1h"]), HeaderFormat::Draft10).await;
    let both = [item("login", &[("q", 1), ("w", 3600)]), item("all", &[("q", 5), ("w", 60)])];
    let first = site.get("/login").await;
    assert_eq!(items(&first, "ratelimit-policy"), both);
    let standings = [item("login", &[("r", 0), ("t", 3600)]), item("all", &[("r", 4), ("t", 60)])];
    assert_eq!(items(&first, "ratelimit"), standings);
    let denied = site.get("/login").await;
    assert_eq!((denied.status, denied.header("retry-after").as_deref()), (429, Some("3600")));
    assert_eq!(items(&denied, "ratelimit-policy"), both, "the outer one let it through and says so");
    let elsewhere = site.get("/").await;
    assert_eq!(items(&elsewhere, "ratelimit"), [item("all", &[("r", 2), ("t", 60)])]);
}

#[tokio::test]
async fn where_there_is_room_for_one_the_tighter_layer_is_told() {
    for (dialect, names) in [(HeaderFormat::Draft6, DRAFT_6), (HeaderFormat::XRateLimitSeconds, X)] {
        let site = nested(policy("all", &["5/1m"]), policy("login", &["3/1h"]), dialect).await;
        assert_eq!(told(&site.get("/login").await), three(names, [3, 2, 3600]), "the inner one");
        assert_eq!(told(&site.get("/").await), three(names, [5, 3, 60]));
        assert_eq!(told(&site.get("/").await), three(names, [5, 2, 60]));
        assert_eq!(told(&site.get("/login").await), three(names, [3, 1, 3600]), "as little is left by the outer one");
        site.get("/").await;
        site.time.advance(Duration::from_secs(60));
        for left in [4, 3, 2, 1] {
            assert_eq!(told(&site.get("/").await), three(names, [5, left, 60]));
        }
        assert_eq!(told(&site.get("/login").await), three(names, [3, 0, 3600]));
    }
    let site = nested(policy("all", &["2/1m"]), policy("login", &["3/1h"]), HeaderFormat::Draft6).await;
    assert_eq!(told(&site.get("/login").await), three(DRAFT_6, [2, 1, 60]), "the outer one");
}

#[tokio::test]
async fn jitter_is_never_early_never_later_than_asked_and_not_always_the_same() {
    let (told, heard) = std::sync::mpsc::channel();
    let layer =
        RateLimitLayer::new(policy("api", &["1/1m"])).jitter(Duration::from_secs(10)).denial_response(move |denial| {
            let truth = denial.decision().retry_after().expect("it is limited");
            told.send((truth, denial.retry_after().expect("it is limited"))).expect("the test listens");
            http::Response::new(bytes::Bytes::new())
        });
    let site = Site::behind(layer).await;
    site.get("/").await;
    site.time.advance(Duration::from_micros(500_001));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let denied = site.get("/").await;
        let (truth, wait) = heard.try_recv().expect("it was denied");
        assert_eq!(truth, Duration::from_micros(59_499_999));
        assert!((truth..=truth + Duration::from_secs(10)).contains(&wait), "{wait:?}");
        let seconds: u64 = denied.header("retry-after").expect("told").parse().expect("whole seconds");
        assert_eq!(u128::from(seconds), wait.as_micros().div_ceil(1_000_000), "{wait:?}");
        let standing = items(&denied, "ratelimit");
        assert_eq!(standing, [item("api", &[("r", 0), ("t", seconds.cast_signed())])]);
        seen.insert(wait);
    }
    assert!(seen.len() > 1, "always {seen:?}");
}

#[tokio::test]
async fn a_policy_that_only_watches_denies_nothing_and_is_told_to_nobody_but_the_observer() {
    let (told, heard) = std::sync::mpsc::channel();
    let watching = policy("new", &["1/1m"]).with_mode(Mode::Shadow);
    let layer = RateLimitLayer::new(watching).on_decision(move |event| {
        let policy = event.policy.name().map(str::to_owned);
        let path = event.request.uri().path().to_owned();
        told.send((path, policy, event.decision.reason().as_str())).expect("the test listens");
    });
    let site = Site::behind(layer).await;
    for (path, reason) in [("/a", "allowed"), ("/b", "shadow"), ("/c", "shadow")] {
        let answer = site.get(path).await;
        assert_eq!((answer.status, self::told(&answer)), (200, vec![]));
        assert_eq!(heard.try_recv(), Ok((path.to_owned(), Some("new".to_owned()), reason)));
    }
}

#[tokio::test]
async fn a_policy_that_only_watches_hides_none_that_enforces() {
    let rules = || {
        let watching = policy("new", &["1/1m"]).with_mode(Mode::Shadow);
        [policy("api", &["3/1h"]), watching].map(|policy| Rule::new(policy).key(KeyExtractor::global()))
    };
    let site = Site::behind(RateLimitLayer::all(rules())).await;
    for left in [2, 1, 0] {
        let answer = site.get("/").await;
        assert_eq!(items(&answer, "ratelimit-policy"), [item("api", &[("q", 3), ("w", 3600)])]);
        assert_eq!(items(&answer, "ratelimit"), [item("api", &[("r", left), ("t", 3600)])]);
    }
    let denied = site.get("/").await;
    assert_eq!((denied.status, denied.header("retry-after").as_deref()), (429, Some("3600")));
    assert_eq!(items(&denied, "ratelimit"), [item("api", &[("r", 0), ("t", 3600)])]);
}

#[test]
fn the_longest_wait_is_rounded_up_as_far_as_there_are_numbers() {
    assert_eq!(tidegate_tower::ceil_seconds(Duration::from_nanos(1)), 1);
    assert_eq!(tidegate_tower::ceil_seconds(Duration::MAX), u64::MAX);
}
