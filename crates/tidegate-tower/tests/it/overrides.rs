//! What clients are told whose limits are overridden.

use std::time::Duration;

use tidegate::{Key, Override, Policy, Timestamp};
use tidegate_tower::{KeyExtractor, RateLimitLayer, Rule};

use crate::site::{Answer, START, Site, hello, policy};

/// A site with the limits given, whose only client has an override.
async fn site(dialect: &str, limits: &[&str], by: Override) -> Site {
    let policy = policy("api", limits);
    let layer = RateLimitLayer::new(policy.clone()).headers(dialect.parse().expect("a dialect"));
    let site = Site::behind(layer).await;
    set(&site, &policy, by);
    site
}

fn set(site: &Site, policy: &Policy, by: Override) {
    site.limiter.set_override(policy, &Key::new("127.0.0.1").expect("a key"), by).expect("there is room");
}

fn in_seconds(seconds: u64) -> Timestamp {
    Timestamp::from_micros((START + seconds) * 1_000_000)
}

fn draft_10(answer: &Answer) -> [String; 2] {
    ["ratelimit-policy", "ratelimit"].map(|name| answer.header(name).unwrap_or_default())
}

#[tokio::test]
async fn draft_10_tells_the_limit_of_the_override_and_the_policys_own_after_it() {
    let wider = Override::limits(policy("any", &["9/10s"])).until(in_seconds(5));
    let site = site("draft-10", &["2/1m"], wider).await;
    let raised = site.get("/").await;
    assert_eq!(draft_10(&raised), [r#""api";q=9;w=10"#, r#""api";r=8;t=10"#]);
    site.time.advance(Duration::from_secs(5));
    assert_eq!(draft_10(&site.get("/").await), [r#""api";q=2;w=60"#, r#""api";r=0;t=60"#]);
}

#[tokio::test]
async fn of_several_limits_the_one_that_bound_is_told_by_its_window() {
    let tight = Override::limits(policy("any", &["1/30s", "9/1h"]));
    let site = site("draft-10", &["2/1m", "100/1d"], tight).await;
    assert_eq!(draft_10(&site.get("/").await), [r#""api:30s";q=1;w=30"#, r#""api:30s";r=0;t=30"#]);
    let denied = site.get("/").await;
    assert_eq!((denied.status, denied.header("retry-after").as_deref()), (429, Some("30")));
    assert_eq!(denied.json()["violated-policies"][0], "api:30s");
}

#[tokio::test]
async fn three_headers_tell_the_capacity_of_the_override() {
    for (dialect, name) in [("draft-6", "ratelimit-limit"), ("x-ratelimit", "x-ratelimit-limit")] {
        let site = site(dialect, &["2/1m"], Override::limits(policy("any", &["9/1m"]))).await;
        assert_eq!(site.get("/").await.header(name).as_deref(), Some("9"), "{dialect}");
    }
}

#[tokio::test]
async fn a_banned_client_gets_403_with_the_end_of_the_ban_and_no_quota() {
    let site = site("draft-10", &["2/1m"], Override::ban().until(in_seconds(7))).await;
    let denied = site.get("/").await;
    assert_eq!((denied.status, denied.header("retry-after").as_deref()), (403, Some("7")));
    assert_eq!(denied.header("content-type").as_deref(), Some("application/problem+json"));
    assert_eq!(denied.json()["detail"], "this client is banned: the ban ends in 7 s");
    assert_eq!(draft_10(&denied), ["", ""], "there is no quota to tell of");
    site.time.advance(Duration::from_secs(7));
    assert_eq!(site.get("/").await.status, 200);
}

#[tokio::test]
async fn a_permanent_ban_promises_no_reset_in_any_dialect() {
    for dialect in ["draft-10", "draft-6", "x-ratelimit", "x-ratelimit-seconds", "off"] {
        let site = site(dialect, &["2/1m"], Override::ban()).await;
        let denied = site.get("/").await;
        assert_eq!((denied.status, denied.json()["title"].as_str()), (403, Some("Forbidden")), "{dialect}");
        assert_eq!(denied.json()["detail"], "this client is banned: waiting does not help");
        for name in ["retry-after", "ratelimit", "ratelimit-policy", "ratelimit-reset", "x-ratelimit-reset"] {
            assert_eq!(denied.header(name), None, "{name} in {dialect}");
        }
    }
}

#[tokio::test]
async fn who_is_exempt_is_never_denied() {
    let site = site("draft-10", &["1/1m"], Override::exempt()).await;
    for _ in 0..3 {
        let answer = site.get("/").await;
        assert_eq!(
            (answer.status, draft_10(&answer)),
            (200, [r#""api";q=1;w=60"#, r#""api";r=1;t=0"#].map(Into::into))
        );
    }
}

#[tokio::test]
async fn under_several_policies_only_the_overridden_one_is_told_otherwise() {
    let (api, site_wide) = (policy("api", &["2/1m"]), policy("site", &["50/1m"]));
    let rules = [Rule::new(api.clone()), Rule::new(site_wide).key(KeyExtractor::global())];
    let layer = RateLimitLayer::all(rules);
    let site = Site::serve(|limiter| hello().layer(layer.in_store(limiter))).await;
    set(&site, &api, Override::limits(policy("any", &["9/10s"])));
    assert_eq!(draft_10(&site.get("/").await), [r#""api";q=9;w=10, "site";q=50;w=60"#, r#""api";r=8;t=10"#]);
}
