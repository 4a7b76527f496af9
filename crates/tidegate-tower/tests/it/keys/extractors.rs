//! Keys by headers, extensions and closures.

use std::sync::Arc;

use axum::{extract::Request, middleware};
use tidegate::Key;
use tidegate_tower::{
    ClientAddress, OnMissingKey, PeerAddress, RateLimitLayer, RequestHead, Rule,
    key::{Extension, ExtractError, Global, Header, KeyExtractor},
};

use crate::test_server::{TestServer, hello, policy};

const KEY: &str = "x-api-key";

fn once(by: impl KeyExtractor) -> Rule {
    Rule::new(policy("api", &["1/1m"])).key(by)
}

fn by_header() -> Rule {
    once(Header::new("X-Api-Key").expect("a header's name"))
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
        "from any address"
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
    let by = Header::new("tenant-bin").expect("a header's name");
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
    assert_eq!(server.get_with("/", &[(KEY, "")]).await.status, 429, "an empty header counts as none");
    assert_eq!(server.with_client_address("127.0.0.2").get("/").await.status, 200);
    assert_eq!(server.get_with("/", &[(KEY, "127.0.0.1")]).await.status, 200, "separate from requests with a key");
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
    let layer = RateLimitLayer::new(once(Extension::<Account>::new(|account| Key::new(&account.id))));
    let server =
        TestServer::serve(|limiter| hello().layer(layer.in_store(limiter)).layer(middleware::from_fn(log_in))).await;
    assert_eq!(server.get_with("/", &[("authorization", "alice")]).await.status, 200);
    assert_eq!(server.get_with("/", &[("authorization", "alice")]).await.status, 429);
    assert_eq!(server.get_with("/", &[("authorization", "bob")]).await.status, 200);
    assert_eq!(
        [server.get("/").await.status, server.get("/").await.status],
        [200, 429],
        "without an account, the address counts"
    );
}

#[tokio::test]
async fn a_rejection_does_not_reveal_the_extension() {
    let rule = once(Extension::<Account>::new(|account| Key::new(&account.id))).on_missing_key(OnMissingKey::Reject);
    let refused = TestServer::behind(RateLimitLayer::new(rule)).await.get("/").await;
    assert_eq!((refused.status, &refused.json()["detail"]), (400, &"the client of the request is not known".into()));
}

#[tokio::test]
async fn a_joined_key_equals_no_other_key() {
    let rule = Rule::new(policy("api", &["1/1m"]))
        .key_fn(|request| Key::join([request.header("x-tenant")?, request.header("x-user")?]).ok());
    let server = TestServer::behind(RateLimitLayer::new(rule)).await;
    let ask = async |tenant, user| server.get_with("/", &[("x-tenant", tenant), ("x-user", user)]).await.status;
    assert_eq!(ask("a", "bc").await, 200);
    assert_eq!(ask("ab", "c").await, 200);
    assert_eq!(ask("a", "bc").await, 429);
    let seen = async |user| server.get_with("/", &[("x-tenant", "a"), ("x-user", user), ("x-user", "bc")]).await.status;
    assert_eq!([seen("x1").await, seen("x2").await], [200, 429], "several values are counted by the address");
}

#[tokio::test]
async fn the_global_key_shares_one_limit() {
    let server = TestServer::behind(RateLimitLayer::new(once(Global))).await;
    assert_eq!(server.get("/").await.status, 200);
    assert_eq!(server.with_client_address("127.0.0.2").get_with("/", &[(KEY, "alice")]).await.status, 429);
}

#[tokio::test]
async fn a_key_that_is_too_long_is_rejected() {
    let long = "x".repeat(1025);
    let extractors: [Arc<dyn KeyExtractor>; 2] = [
        Arc::new(Header::new("authorization").expect("a header's name")),
        Arc::new(Extension::<Account>::new(|account| Key::new(&account.id))),
    ];
    for by in extractors {
        let layer = RateLimitLayer::new(once(by).on_missing_key(OnMissingKey::Admit));
        let server =
            TestServer::serve(|limiter| hello().layer(layer.in_store(limiter)).layer(middleware::from_fn(log_in)))
                .await;
        assert_eq!(server.get_with("/", &[("authorization", &long)]).await.status, 400);
    }
}

#[tokio::test]
async fn a_closure_without_annotations_may_return_from_several_branches() {
    let rule = Rule::new(policy("api", &["1/1m"])).key_fn(|request| {
        if let Some(user) = request.header("x-user") {
            return Key::new(user).ok();
        }
        if request.method() == "POST" {
            return Some(Key::from(request.body_size()?));
        }
        let path = request.uri().path();
        if path == "/by-address" {
            return request.client_key().ok();
        }
        Key::new(path).ok()
    });
    let api = policy("api", &["1/1m"]);
    let server = TestServer::behind(RateLimitLayer::new(rule)).await;
    server.get_with("/", &[("x-user", "alice")]).await;
    server.send(|client, url| client.post(url).body("12345"), "/").await;
    server.get("/by-address").await;
    server.get("/page").await;
    assert_eq!(["alice", "5", "127.0.0.1", "/page"].map(|key| server.used(&api, key)), [1; 4]);
}

#[tokio::test]
async fn a_closure_gets_the_address_of_the_client_behind_a_proxy() {
    let rule = Rule::new(policy("api", &["1/1m"])).key_fn(|request| request.client_key().ok());
    let layer = RateLimitLayer::new(rule).client_address(ClientAddress::behind_hops(1).expect("at least one"));
    let server = TestServer::behind(layer).await;
    server.get_with("/", &[("x-forwarded-for", "203.0.113.7")]).await;
    server.get_with("/", &[("x-forwarded-for", "2001:db8:1:2::9")]).await;
    let api = policy("api", &["1/1m"]);
    assert_eq!(["203.0.113.7", "2001:db8:1:2::/64"].map(|key| server.used(&api, key)), [1, 1]);
}

/// Counts requests by the part of a header before a dash.
struct Region {
    header: &'static str,
}

impl KeyExtractor for Region {
    fn key<'r>(&self, request: &'r RequestHead<'_>) -> Result<Option<Key<'r>>, ExtractError> {
        let Some(value) = request.header(self.header) else { return Ok(None) };
        match value.iter().position(|byte| *byte == b'-') {
            Some(dash) => Ok(Some(Key::new(&value[..dash])?)),
            None => Err(ExtractError::Rejected("a region has a dash".into())),
        }
    }

    fn name(&self) -> Option<&str> {
        Some(self.header)
    }
}

#[tokio::test]
async fn an_extractor_may_be_a_type_of_the_user() {
    let rule = once(Region { header: "x-region" }).on_missing_key(OnMissingKey::Reject);
    let server = TestServer::behind(RateLimitLayer::new(rule)).await;
    let ask = async |region| server.get_with("/", &[("x-region", region)]).await;
    assert_eq!(
        [ask("eu-west").await.status, ask("eu-north").await.status, ask("us-east").await.status],
        [200, 429, 200]
    );
    let detail = |response: crate::test_server::TestResponse| (response.status, response.json()["detail"].clone());
    assert_eq!(detail(ask("mars").await), (400, "a region has a dash".into()));
    assert_eq!(detail(ask("-").await), (400, Key::new("").expect_err("it is empty").to_string().into()));
    assert_eq!(detail(server.get("/").await), (400, "the request has no `x-region`".into()));
}

#[test]
fn an_extractor_can_be_tested_without_a_server() {
    let extractor = Region { header: "x-region" };
    let mut request = http::Request::get("/").header("x-region", "eu-west").body(String::new()).expect("a request");
    assert_eq!(extractor.key(&RequestHead::new(&request)), Ok(Some(Key::new("eu").expect("a key"))));
    assert!(RequestHead::new(&request).client_key().is_err());
    request.extensions_mut().insert(PeerAddress([203, 0, 113, 7].into()));
    assert_eq!(RequestHead::new(&request).client_key(), Ok(Key::new("203.0.113.7").expect("a key")));
}
