//! Keys by headers, extensions and closures.

use axum::{extract::Request, middleware};
use tidegate::Key;
use tidegate_tower::{KeyExtractor, OnMissingKey, RateLimitLayer, Rule};

use crate::test_server::{TestServer, hello, policy};

const KEY: &str = "x-api-key";

fn once(by: KeyExtractor) -> Rule {
    Rule::new(policy("api", &["1/1m"])).key(by)
}

fn by_header() -> Rule {
    once(KeyExtractor::header("X-Api-Key").expect("a header's name"))
}

#[tokio::test]
async fn each_header_value_is_a_key() {
    let server = TestServer::behind(RateLimitLayer::new(by_header())).await;
    assert_eq!(server.get_with("/", &[(KEY, "alice")]).await.status, 200);
    assert_eq!(server.get_with("/", &[(KEY, "bob")]).await.status, 200);
    assert_eq!(server.get_with("/", &[(KEY, "alice")]).await.status, 429);
    assert_eq!(
        server.with_client_address("127.0.0.2").get_with("/", &[(KEY, "bob")]).await.status,
        429,
        "wherever it comes from"
    );
}

#[tokio::test]
async fn several_values_of_the_key_header_are_rejected_and_not_counted() {
    for without in [OnMissingKey::UseAddress, OnMissingKey::Admit, OnMissingKey::Reject] {
        let server = TestServer::behind(RateLimitLayer::new(by_header().on_missing_key(without))).await;
        for values in [["alice", "x1"], ["x2", "alice"], ["alice", "alice"], ["", "alice"], ["alice", ""]] {
            let refused = server.get_with("/", &values.map(|value| (KEY, value))).await;
            let detail = refused.json()["detail"].as_str().map(str::to_owned).unwrap_or_default();
            assert_eq!(refused.status, 400, "{values:?}: {detail}");
            assert!(detail.contains("several values of `x-api-key`"), "{detail}");
        }
        assert_eq!(server.get_with("/", &[(KEY, "alice")]).await.status, 200, "nothing was counted so far");
        assert_eq!(server.get_with("/", &[(KEY, "alice")]).await.status, 429);
        assert_eq!(server.get_with("/", &[(KEY, "alice, x3")]).await.status, 200, "a comma is part of the value");
        assert_eq!(server.get_with("/", &[(KEY, "alice, x3")]).await.status, 429);
    }
}

#[tokio::test]
async fn binary_metadata_joined_by_commas_has_several_values() {
    let by = KeyExtractor::header("tenant-bin").expect("a header's name");
    let server = TestServer::behind(RateLimitLayer::new(once(by))).await;
    assert_eq!(server.get_with("/", &[("tenant-bin", "YWxpY2U=")]).await.status, 200);
    assert_eq!(server.get_with("/", &[("tenant-bin", "YWxpY2U=")]).await.status, 429);
    assert_eq!(server.get_with("/", &[("tenant-bin", "YWxpY2U=,eDE=")]).await.status, 400);
}

#[tokio::test]
async fn omitting_the_header_does_not_avoid_the_limit() {
    let server = TestServer::behind(RateLimitLayer::new(by_header())).await;
    assert_eq!(server.get("/").await.status, 200);
    assert_eq!(server.get("/").await.status, 429, "counted by its address");
    assert_eq!(server.get_with("/", &[(KEY, "")]).await.status, 429, "empty is as good as none");
    assert_eq!(server.with_client_address("127.0.0.2").get("/").await.status, 200);
    assert_eq!(server.get_with("/", &[(KEY, "127.0.0.1")]).await.status, 200, "apart from those that have a key");
}

#[tokio::test]
async fn requests_without_a_key_can_be_admitted() {
    let server = TestServer::behind(RateLimitLayer::new(by_header().on_missing_key(OnMissingKey::Admit))).await;
    for _ in 0..3 {
        let answer = server.get("/").await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
    }
    assert_eq!(server.get_with("/", &[(KEY, "alice")]).await.status, 200);
    assert_eq!(server.get_with("/", &[(KEY, "alice")]).await.status, 429);
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
async fn an_extension_of_an_outer_layer_is_a_key() {
    let layer = RateLimitLayer::new(once(KeyExtractor::extension(|account: &Account| &account.id)));
    let server =
        TestServer::serve(|limiter| hello().layer(layer.in_store(limiter)).layer(middleware::from_fn(log_in))).await;
    assert_eq!(server.get_with("/", &[("authorization", "alice")]).await.status, 200);
    assert_eq!(server.get_with("/", &[("authorization", "alice")]).await.status, 429);
    assert_eq!(server.get_with("/", &[("authorization", "bob")]).await.status, 200);
    assert_eq!([server.get("/").await.status, server.get("/").await.status], [200, 429], "a stranger, by the address");
}

#[tokio::test]
async fn a_rejection_does_not_reveal_the_extension() {
    let rule = once(KeyExtractor::extension(|account: &Account| &account.id)).on_missing_key(OnMissingKey::Reject);
    let refused = TestServer::behind(RateLimitLayer::new(rule)).await.get("/").await;
    assert_eq!((refused.status, &refused.json()["detail"]), (400, &"the client of the request is not known".into()));
}

#[tokio::test]
async fn a_joined_key_equals_no_other_key() {
    let by = KeyExtractor::from_fn(|request| Key::join([request.header("x-tenant")?, request.header("x-user")?]).ok());
    let server = TestServer::behind(RateLimitLayer::new(once(by))).await;
    let ask = async |tenant, user| server.get_with("/", &[("x-tenant", tenant), ("x-user", user)]).await.status;
    assert_eq!(ask("a", "bc").await, 200);
    assert_eq!(ask("ab", "c").await, 200);
    assert_eq!(ask("a", "bc").await, 429);
    let seen = async |user| server.get_with("/", &[("x-tenant", "a"), ("x-user", user), ("x-user", "bc")]).await.status;
    assert_eq!([seen("x1").await, seen("x2").await], [200, 429], "several values are counted by the address");
}

#[tokio::test]
async fn the_global_key_shares_one_limit() {
    let server = TestServer::behind(RateLimitLayer::new(once(KeyExtractor::global()))).await;
    assert_eq!(server.get("/").await.status, 200);
    assert_eq!(server.with_client_address("127.0.0.2").get_with("/", &[(KEY, "alice")]).await.status, 429);
}

#[tokio::test]
async fn a_key_that_is_too_long_is_rejected() {
    let long = "x".repeat(1025);
    for by in [
        KeyExtractor::header("authorization").expect("a header's name"),
        KeyExtractor::extension(|account: &Account| &account.id),
    ] {
        let layer = RateLimitLayer::new(once(by).on_missing_key(OnMissingKey::Admit));
        let server =
            TestServer::serve(|limiter| hello().layer(layer.in_store(limiter)).layer(middleware::from_fn(log_in)))
                .await;
        assert_eq!(server.get_with("/", &[("authorization", &long)]).await.status, 400);
    }
}
