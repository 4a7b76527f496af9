//! Responses to denied requests.

use std::{net::SocketAddr, time::Duration};

use axum::Router;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;
use tidegate_tower::{HeaderFormat, OnMissingKey, RateLimitLayer, Rule, key::Header};
use tokio::net::TcpListener;

use crate::test_server::{TestResponse, TestServer, hello, policy};

const PROBLEM: Option<&str> = Some("application/problem+json");
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

fn kind(answer: &TestResponse) -> Option<&str> {
    answer.headers.get("content-type").map(|kind| kind.to_str().expect("text"))
}

#[tokio::test]
async fn a_limited_request_gets_the_limit_and_the_wait() {
    let server = TestServer::behind(RateLimitLayer::new(policy("login", &["1/1m", "9/1h"]))).await;
    server.get("/").await;
    server.time.advance(Duration::from_millis(500));
    let denied = server.get("/").await;
    assert_eq!((denied.status, kind(&denied), denied.header("retry-after").as_deref()), (429, PROBLEM, Some("60")));
    let expected = json!({
        "type": QUOTA_EXCEEDED,
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": 429,
        "detail": "the limit of 1/1m is used up: try again in 60 s",
        "violated-policies": ["login:1m"],
    });
    assert_eq!(denied.json(), expected);
}

#[tokio::test]
async fn an_impossible_request_gets_422_without_a_wait() {
    let server = TestServer::behind(RateLimitLayer::new(Rule::new(policy("api", &["5/1m"])).cost(|_| 6))).await;
    let denied = server.get("/").await;
    assert_eq!((denied.status, kind(&denied), denied.header("retry-after")), (422, PROBLEM, None));
    assert_eq!(denied.header("ratelimit"), None, "the remaining units are not enough for it");
    let expected = json!({
        "type": QUOTA_EXCEEDED,
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": 422,
        "detail": "this request costs more than the limit of 5/1m ever allows: waiting does not help",
        "violated-policies": ["api"],
    });
    assert_eq!(denied.json(), expected);
}

#[tokio::test]
async fn a_server_without_peer_addresses_reveals_nothing_to_the_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address: SocketAddr = listener.local_addr().expect("it is bound");
    let app: Router = hello().layer(RateLimitLayer::new(policy("api", &["1/1m"])));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let mut server = TestServer::behind(RateLimitLayer::new(policy("unused", &["1/1m"]))).await;
    server.address = address;
    let refused = server.get("/").await;
    assert_eq!((refused.status, kind(&refused)), (500, PROBLEM));
    let expected = json!({
        "type": "about:blank",
        "title": "Internal Server Error",
        "status": 500,
        "detail": "the server could not process the request",
    });
    assert_eq!(refused.json(), expected);
}

#[tokio::test]
async fn a_request_without_a_required_key_is_rejected() {
    let by_key = Rule::new(policy("api", &["1/1m"])).key(Header::new("x-api-key").expect("a header's name"));
    let server = TestServer::behind(RateLimitLayer::new(by_key.on_missing_key(OnMissingKey::Reject))).await;
    let expected =
        |detail: &str| json!({ "type": "about:blank", "title": "Bad Request", "status": 400, "detail": detail });
    let refused = server.get("/").await;
    assert_eq!((refused.status, kind(&refused)), (400, PROBLEM));
    assert_eq!(refused.json(), expected("the request has no `x-api-key`"));
    let long = server.get_with("/", &[("x-api-key", &"k".repeat(1025))]).await;
    assert_eq!((long.status, kind(&long)), (400, PROBLEM));
    assert_eq!(long.json(), expected(&tidegate::Key::new(&[b'k'; 1025]).expect_err("it is too long").to_string()));
    assert_eq!(server.get_with("/", &[("x-api-key", &"k".repeat(1024))]).await.status, 200);
}

#[tokio::test]
async fn a_custom_denial_keeps_the_headers() {
    let layer = RateLimitLayer::new(policy("api", &["1/1m"])).denial_response(|denial| {
        let text = format!("{} under {} from {}", denial.status(), denial.limit_name(), denial.request().uri().path());
        let mut response = Response::new(Bytes::from(text));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response.headers_mut().insert("retry-after", HeaderValue::from_static("0"));
        response
    });
    for (format, header) in [(HeaderFormat::Draft10, "ratelimit"), (HeaderFormat::Draft6, "ratelimit-reset")] {
        let server = TestServer::behind(layer.clone().headers(format)).await;
        server.get("/").await;
        let denied = server.get("/page").await;
        assert_eq!((denied.status, &*denied.body), (418, &b"429 Too Many Requests under api from /page"[..]));
        assert_eq!(denied.header("retry-after").as_deref(), Some("60"), "the real wait, not the one of the closure");
        assert!(denied.header(header).is_some());
    }
}
