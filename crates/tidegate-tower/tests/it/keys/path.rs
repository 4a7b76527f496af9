//! Keys by path parameters, compared with axum's own extraction.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, RawPathParams, Request},
    routing::get,
};
use bytes::Bytes;
use proptest::prelude::*;
use tidegate::{Cost, Key, Limiter};
use tidegate_tower::{RateLimitLayer, Rule, key::PathParameter};
use tower::ServiceExt as _;

use crate::test_server::{TestServer, limiter, policy};

/// Responds with axum's value of `id`.
async fn id(parameters: RawPathParams) -> String {
    parameters.iter().find(|(name, _)| *name == "id").map(|(_, value)| value.to_owned()).unwrap_or_default()
}

fn layer(limiter: &Arc<Limiter>) -> RateLimitLayer {
    RateLimitLayer::new(Rule::new(policy("api", &["9/1m"])).key(PathParameter::new("id"))).in_store(Arc::clone(limiter))
}

/// Routes with all kinds of parameters.
fn routes(limiter: &Arc<Limiter>) -> Router {
    let nested = Router::new().route("/posts/{post}", get(id)).route("/{*rest}", get(id));
    let layered = Router::new().route("/{id}", get(id)).layer(layer(limiter));
    Router::new()
        .route("/users/{id}", get(id))
        .route("/users/{id}/posts/{post}", get(id))
        .route("/posts/{post}/by/{id}", get(id))
        .route("/files/{*id}", get(id))
        .route("/at-{id}", get(id))
        .route("/v-{*id}", get(id))
        .route("/{{id}}/{id}", get(id))
        .route("/{{braces}}-{id}", get(id))
        .nest("/of/{id}", nested)
        .nest_service("/service/{id}", Router::new().route("/posts/{post}", get(id)).layer(layer(limiter)))
        .layer(layer(limiter))
        .nest("/inner", layered)
}

#[tokio::test]
async fn a_parameter_has_the_value_that_axum_extracts() {
    let server = TestServer::serve(|limiter| routes(&limiter)).await;
    let api = policy("api", &["9/1m"]);
    for (path, expected) in [
        ("/users/alice", "alice"),
        ("/users/%62ob", "bob"),
        ("/users/a%2Fb", "a/b"),
        ("/users/%25", "%"),
        ("/users/a+b", "a+b"),
        ("/users/%C3%A9mile?x=/y", "émile"),
        ("/users/carol/posts/7", "carol"),
        ("/posts/7/by/dave", "dave"),
        ("/files/some/where/a%20b", "some/where/a b"),
        ("/files//x", "/x"),
        ("/files/x/", "x/"),
        ("/at-eve", "eve"),
        ("/v-1/2", "1/2"),
        ("/of/ivan/posts/7", "ivan"),
        ("/of/judy/any/thing", "judy"),
        ("/service/ken/posts/7", "ken"),
        ("/inner/leo", "leo"),
    ] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, &*answer.body), (200, expected.as_bytes()), "{path} for a handler");
        assert!(server.used(&api, expected) >= 1, "{path} is {expected} for the layer");
    }
}

#[tokio::test]
async fn another_spelling_of_a_path_is_the_same_key() {
    let once = Rule::new(policy("api", &["1/1m"])).key(PathParameter::new("id"));
    let layer = RateLimitLayer::new(once);
    let server =
        TestServer::serve(|limiter| Router::new().route("/users/{id}", get(id)).layer(layer.in_store(limiter))).await;
    assert_eq!(server.get("/users/alice").await.status, 200);
    for path in ["/users/%61lice", "/users/alice?x=1", "/users/a%6C%69ce"] {
        assert_eq!(server.get(path).await.status, 429, "{path}");
    }
    assert_eq!(server.get("/users/Alice").await.status, 200);
}

#[tokio::test]
async fn a_path_without_the_parameter_is_counted_by_address() {
    let once = Rule::new(policy("api", &["1/1m"])).key(PathParameter::new("name"));
    let layer = RateLimitLayer::new(once);
    let server =
        TestServer::serve(|limiter| Router::new().route("/users/{id}", get(id)).layer(layer.in_store(limiter))).await;
    assert_eq!([server.get("/users/a").await.status, server.get("/users/b").await.status], [200, 429]);
    assert_eq!(server.with_client_address("127.0.0.2").get("/users/a").await.status, 200);
}

/// A path segment, partly percent-encoded.
fn segment() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        4 => "[a-zA-Z0-9._~!$&'()*+,;=:@-]".prop_map(String::from),
        2 => any::<char>().prop_map(|any| any.to_string().bytes().fold(String::new(), |all, b| format!("{all}%{b:02X}"))),
        1 => Just("%2f".to_owned()),
    ];
    proptest::collection::vec(letter, 1..12).prop_map(|letters| letters.concat())
}

/// The value that a handler extracts, and the units charged to that key.
fn found(path: &str) -> (Bytes, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let (_, limiter) = limiter();
    let peer = ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 80)));
    let request = Request::get(path).extension(peer).body(Body::empty()).expect("a path");
    let found = runtime.block_on(async {
        let response = routes(&limiter).oneshot(request).await.expect("it can't fail");
        assert_eq!(response.status(), 200, "{path}");
        axum::body::to_bytes(response.into_body(), 1 << 16).await.expect("a body")
    });
    let used = limiter.peek(&policy("api", &["9/1m"]), &Key::new(&*found).expect("a key"), Cost::ONE).used();
    (found, used)
}

#[test]
fn escaped_braces_are_plain_text() {
    for (path, expected) in [("/{id}/alice", "alice"), ("/{braces}-bob", "bob")] {
        assert_eq!(found(path), (expected.into(), 1), "{path}");
    }
}

proptest! {
    #[test]
    fn every_parameter_matches_axums_extraction(one in segment(), other in segment(), route in 0..6_usize) {
        let path = match route {
            0 => format!("/users/{one}"),
            1 => format!("/users/{one}/posts/{other}"),
            2 => format!("/posts/{other}/by/{one}"),
            3 => format!("/files/{one}/{other}"),
            4 => format!("/of/{one}/{other}"),
            _ => format!("/inner/{one}"),
        };
        let (found, used) = found(&path);
        prop_assert_eq!(used, 1, "{} is {:?} for a handler", path, found);
    }
}
