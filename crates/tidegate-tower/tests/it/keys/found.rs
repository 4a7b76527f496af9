//! Clients by what they say or what was found out about them.

use axum::{extract::Request, middleware};
use tidegate::Key;
use tidegate_tower::{KeyExtractor, OnMissingKey, RateLimitLayer, Rule};

use crate::site::{Site, hello, policy};

const KEY: &str = "x-api-key";

fn once(by: KeyExtractor) -> Rule {
    Rule::new(policy("api", &["1/1m"])).key(by)
}

fn by_header() -> Rule {
    once(KeyExtractor::header("X-Api-Key").expect("a header's name"))
}

#[tokio::test]
async fn each_value_of_a_header_is_counted_by_itself() {
    let site = Site::behind(RateLimitLayer::new(by_header())).await;
    assert_eq!(site.get_with("/", &[(KEY, "alice")]).await.status, 200);
    assert_eq!(site.get_with("/", &[(KEY, "bob")]).await.status, 200);
    assert_eq!(site.get_with("/", &[(KEY, "alice")]).await.status, 429);
    assert_eq!(
        site.visited_from("127.0.0.2").get_with("/", &[(KEY, "bob")]).await.status,
        429,
        "wherever it comes from"
    );
}

#[tokio::test]
async fn several_values_of_the_key_header_are_refused_and_not_counted() {
    for without in [OnMissingKey::UseAddress, OnMissingKey::Admit, OnMissingKey::Reject] {
        let site = Site::behind(RateLimitLayer::new(by_header().on_missing_key(without))).await;
        for values in [["alice", "x1"], ["x2", "alice"], ["alice", "alice"], ["", "alice"], ["alice", ""]] {
            let refused = site.get_with("/", &values.map(|value| (KEY, value))).await;
            let detail = refused.json()["detail"].as_str().map(str::to_owned).unwrap_or_default();
            assert_eq!(refused.status, 400, "{values:?}: {detail}");
            assert!(detail.contains("several values of `x-api-key`"), "{detail}");
        }
        assert_eq!(site.get_with("/", &[(KEY, "alice")]).await.status, 200, "nothing was counted so far");
        assert_eq!(site.get_with("/", &[(KEY, "alice")]).await.status, 429);
        assert_eq!(site.get_with("/", &[(KEY, "alice, x3")]).await.status, 200, "a comma is part of the value");
        assert_eq!(site.get_with("/", &[(KEY, "alice, x3")]).await.status, 429);
    }
}

#[tokio::test]
async fn values_of_binary_metadata_that_commas_join_are_several() {
    let by = KeyExtractor::header("tenant-bin").expect("a header's name");
    let site = Site::behind(RateLimitLayer::new(once(by))).await;
    assert_eq!(site.get_with("/", &[("tenant-bin", "YWxpY2U=")]).await.status, 200);
    assert_eq!(site.get_with("/", &[("tenant-bin", "YWxpY2U=")]).await.status, 429);
    assert_eq!(site.get_with("/", &[("tenant-bin", "YWxpY2U=,eDE=")]).await.status, 400);
}

#[tokio::test]
async fn leaving_the_header_out_is_no_way_around_the_limit() {
    let site = Site::behind(RateLimitLayer::new(by_header())).await;
    assert_eq!(site.get("/").await.status, 200);
    assert_eq!(site.get("/").await.status, 429, "counted by its address");
    assert_eq!(site.get_with("/", &[(KEY, "")]).await.status, 429, "empty is as good as none");
    assert_eq!(site.visited_from("127.0.0.2").get("/").await.status, 200);
    assert_eq!(site.get_with("/", &[(KEY, "127.0.0.1")]).await.status, 200, "apart from those that have a key");
}

#[tokio::test]
async fn who_has_no_key_may_be_let_through_uncounted() {
    let site = Site::behind(RateLimitLayer::new(by_header().on_missing_key(OnMissingKey::Admit))).await;
    for _ in 0..3 {
        let answer = site.get("/").await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
    }
    assert_eq!(site.get_with("/", &[(KEY, "alice")]).await.status, 200);
    assert_eq!(site.get_with("/", &[(KEY, "alice")]).await.status, 429);
}

#[derive(Clone)]
struct Account {
    id: String,
}

async fn log_in(mut request: Request, next: middleware::Next) -> axum::response::Response {
    let user = request.headers().get("authorization").and_then(|user| user.to_str().ok()).map(str::to_owned);
    if let Some(id) = user {
        request.extensions_mut().insert(Account { id });
    }
    next.run(request).await
}

#[tokio::test]
async fn what_an_earlier_layer_found_can_be_counted_by() {
    let layer = RateLimitLayer::new(once(KeyExtractor::extension(|account: &Account| &account.id)));
    let site = Site::serve(|limiter| hello().layer(layer.in_store(limiter)).layer(middleware::from_fn(log_in))).await;
    assert_eq!(site.get_with("/", &[("authorization", "alice")]).await.status, 200);
    assert_eq!(site.get_with("/", &[("authorization", "alice")]).await.status, 429);
    assert_eq!(site.get_with("/", &[("authorization", "bob")]).await.status, 200);
    assert_eq!([site.get("/").await.status, site.get("/").await.status], [200, 429], "a stranger, by the address");
}

#[tokio::test]
async fn who_is_refused_is_told_nothing_of_how_it_would_have_been_known() {
    let rule = once(KeyExtractor::extension(|account: &Account| &account.id)).on_missing_key(OnMissingKey::Reject);
    let refused = Site::behind(RateLimitLayer::new(rule)).await.get("/").await;
    assert_eq!((refused.status, &refused.json()["detail"]), (400, &"the client of the request is not known".into()));
}

#[tokio::test]
async fn a_key_of_several_things_is_no_other_key() {
    let by = KeyExtractor::from_fn(|request| Key::join([request.header("x-tenant")?, request.header("x-user")?]).ok());
    let site = Site::behind(RateLimitLayer::new(once(by))).await;
    let ask = async |tenant, user| site.get_with("/", &[("x-tenant", tenant), ("x-user", user)]).await.status;
    assert_eq!(ask("a", "bc").await, 200);
    assert_eq!(ask("ab", "c").await, 200);
    assert_eq!(ask("a", "bc").await, 429);
    let seen = async |user| site.get_with("/", &[("x-tenant", "a"), ("x-user", user), ("x-user", "bc")]).await.status;
    assert_eq!([seen("x1").await, seen("x2").await], [200, 429], "several values are counted by the address");
}

#[tokio::test]
async fn everyone_together_shares_one_limit() {
    let site = Site::behind(RateLimitLayer::new(once(KeyExtractor::global()))).await;
    assert_eq!(site.get("/").await.status, 200);
    assert_eq!(site.visited_from("127.0.0.2").get_with("/", &[(KEY, "alice")]).await.status, 429);
}

#[tokio::test]
async fn what_is_too_long_to_be_a_key_is_refused_and_not_taken_for_none() {
    let long = "x".repeat(1025);
    for by in [
        KeyExtractor::header("authorization").expect("a header's name"),
        KeyExtractor::extension(|account: &Account| &account.id),
    ] {
        let layer = RateLimitLayer::new(once(by).on_missing_key(OnMissingKey::Admit));
        let site =
            Site::serve(|limiter| hello().layer(layer.in_store(limiter)).layer(middleware::from_fn(log_in))).await;
        assert_eq!(site.get_with("/", &[("authorization", &long)]).await.status, 400);
    }
}
