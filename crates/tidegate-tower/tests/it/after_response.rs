//! Corrections of charges by the response.

use std::{convert::Infallible, io, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request},
    http::StatusCode,
    routing::get,
};
use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http_body_util::Full;
use reqwest::Client;
use tidegate::Policy;
use tidegate_tower::{PeerAddress, RateLimitLayer, Rule, key::Global};
use tokio::sync::mpsc;
use tower::{Layer as _, ServiceExt as _};

use crate::test_server::{TestServer, limiter, policy};

const ME: &str = "127.0.0.1";

fn ten() -> Policy {
    policy("api", &["10/1m"])
}

/// Responds with the status in the path.
fn statuses() -> Router {
    let answer = async |Path(status): Path<u16>| StatusCode::from_u16(status).expect("a status");
    Router::new().route("/{status}", get(answer))
}

#[tokio::test]
async fn server_errors_are_refunded_and_client_errors_are_not() {
    let layer = RateLimitLayer::new(ten()).refund_server_errors();
    let server = TestServer::serve(|limiter| statuses().layer(layer.in_store(limiter))).await;
    for (status, used) in [(500, 0), (503, 0), (200, 1), (404, 2), (599, 2), (429, 3)] {
        assert_eq!(server.get(&format!("/{status}")).await.status, status);
        assert_eq!(server.used(&ten(), ME), used, "after {status}");
    }
}

#[tokio::test]
async fn refund_if_chooses_the_responses_to_refund() {
    let layer = RateLimitLayer::new(ten()).refund_if(|response| response.status() == 304);
    let server = TestServer::serve(|limiter| statuses().layer(layer.in_store(limiter))).await;
    for (status, used) in [(304, 0), (500, 1)] {
        assert_eq!(server.get(&format!("/{status}")).await.status, status);
        assert_eq!(server.used(&ten(), ME), used, "after {status}");
    }
}

#[tokio::test]
async fn a_refund_covers_all_rules() {
    let everyone = policy("all", &["10/1m"]);
    let rules = [Rule::new(ten()).cost(|_| 3), Rule::new(everyone.clone()).key(Global)];
    let layer = RateLimitLayer::all(rules).refund_server_errors();
    let server = TestServer::serve(|limiter| statuses().layer(layer.in_store(limiter))).await;
    for (status, used) in [(200, (3, 1)), (500, (3, 1)), (200, (6, 2))] {
        server.get(&format!("/{status}")).await;
        assert_eq!((server.used(&ten(), ME), server.used(&everyone, "everyone")), used, "after {status}");
    }
}

#[tokio::test]
async fn a_service_error_is_refunded() {
    for (refunds, used) in [(true, 0), (false, 1)] {
        let (_, limiter) = limiter();
        let failing = tower::service_fn(async |_: http::Request<Full<Bytes>>| {
            Err::<Response<Full<Bytes>>, _>(io::Error::other("the machine is on fire"))
        });
        let layer = RateLimitLayer::new(ten()).in_store(limiter.clone());
        let layer = if refunds { layer.refund_server_errors() } else { layer };
        let mut request = http::Request::new(Full::default());
        request.extensions_mut().insert(PeerAddress(ME.parse().expect("an address")));
        let error = layer.layer(failing).oneshot(request).await.expect_err("it fails");
        assert_eq!(error.to_string(), "the machine is on fire", "the service's own error");
        let me = tidegate::Key::new(ME).expect("a key");
        assert_eq!(limiter.peek(&ten(), &me, tidegate::Cost::ONE).used(), used);
    }
}

#[tokio::test]
async fn the_response_settles_the_cost_up_down_and_to_zero() {
    let rule = Rule::new(ten()).cost(|_| 4).settle(|response| response.number("x-tokens-used"));
    let answer = async |Path(tokens): Path<String>| ([("x-tokens-used", tokens)], "done");
    let layer = RateLimitLayer::new(rule);
    let server =
        TestServer::serve(|limiter| Router::new().route("/{tokens}", get(answer)).layer(layer.in_store(limiter))).await;
    for (tokens, used) in [("0", 0), ("3", 3), ("unknown", 7)] {
        assert_eq!(server.get(&format!("/{tokens}")).await.status, 200);
        assert_eq!(server.used(&ten(), ME), used, "after {tokens}");
    }
    assert_eq!(server.get("/0").await.status, 429, "7 and 4 are more than 10, whatever it will cost");
    server.time.advance(Duration::from_secs(60));
    assert_eq!(server.get("/25").await.status, 200);
    assert_eq!(server.used(&ten(), ME), 25, "even past the limit");
    assert_eq!(server.get("/0").await.status, 429);
}

#[tokio::test]
async fn headers_report_the_settled_charge() {
    let everyone = policy("all", &["20/1m"]);
    let settled = |policy| Rule::new(policy).settle(|response| response.number("x-tokens-used"));
    let answer = async |Path(tokens): Path<String>| ([("x-tokens-used", tokens)], "done");
    let one = RateLimitLayer::new(settled(ten()));
    let several = RateLimitLayer::all([settled(everyone).key(Global), Rule::new(ten())]);
    for (layer, quotas) in [
        (one, [r#""api";r=3;t=60"#, r#""api";r=2;t=60"#, r#""api";r=0;t=60"#]),
        (several, [r#""api";r=9;t=60"#, r#""api";r=8;t=60"#, r#""all";r=0;t=60"#]),
    ] {
        let server =
            TestServer::serve(|limiter| Router::new().route("/{tokens}", get(answer)).layer(layer.in_store(limiter)))
                .await;
        for (tokens, quota) in ["7", "1", "25"].into_iter().zip(quotas) {
            let quota_header = server.get(&format!("/{tokens}")).await.header("ratelimit");
            assert_eq!(quota_header.as_deref(), Some(quota), "after {tokens}");
        }
    }
}

#[tokio::test]
async fn a_refund_counts_at_the_time_of_the_charge_and_an_extra_charge_counts_now() {
    let (time, limiter) = limiter();
    let answer = {
        let time = time.clone();
        async move |Path(tokens): Path<String>| {
            time.advance(Duration::from_secs(10));
            ([("x-tokens-used", tokens)], "done")
        }
    };
    let rule = Rule::new(ten()).cost(|_| 4).settle(|response| response.number("x-tokens-used"));
    let layer = RateLimitLayer::new(rule).in_store(limiter.clone());
    let server = TestServer::serve(|_| Router::new().route("/{tokens}", get(answer)).layer(layer)).await;
    let used = || limiter.peek(&ten(), &tidegate::Key::new(ME).expect("a key"), tidegate::Cost::ONE).used();

    server.get("/1").await;
    assert_eq!(used(), 1);
    time.advance(Duration::from_micros(49_999_999));
    assert_eq!(used(), 1);
    time.advance(Duration::from_micros(1));
    assert_eq!(used(), 0, "a minute after the call began");

    server.get("/6").await;
    time.advance(Duration::from_secs(50));
    assert_eq!(used(), 2, "4 a minute ago, 2 ten seconds later");
    time.advance(Duration::from_secs(10));
    assert_eq!(used(), 0);
}

fn by_size() -> RateLimitLayer {
    RateLimitLayer::new(Rule::new(ten()).settle_by_size(1000))
}

#[tokio::test]
async fn a_body_of_known_size_costs_by_its_size() {
    let answer = async |Path(bytes): Path<usize>| "x".repeat(bytes);
    let server =
        TestServer::serve(|limiter| Router::new().route("/{bytes}", get(answer)).layer(by_size().in_store(limiter)))
            .await;
    for (bytes, used) in [(0, 0), (1, 1), (1000, 2), (1001, 4)] {
        assert_eq!(server.get(&format!("/{bytes}")).await.body.len(), bytes);
        assert_eq!(server.used(&ten(), ME), used, "after {bytes}");
    }
}

/// A server whose body comes from a channel, and the sender of the channel.
///
/// The channel closes when the server drops the body. All tasks run on one thread, so that a drop has had all its
/// effects when the test continues.
async fn streaming(layer: RateLimitLayer) -> (TestServer, mpsc::Sender<&'static [u8]>) {
    let (chunks, body) = mpsc::channel(1);
    let body = std::sync::Arc::new(std::sync::Mutex::new(Some(body)));
    let answer = async move |_: Request| {
        let mut body = body.lock().expect("nobody panics with it").take().expect("it is asked for once");
        let body = stream::poll_fn(move |cx| body.poll_recv(cx).map(|chunk| chunk.map(Ok::<_, Infallible>)));
        Body::from_stream(body)
    };
    let server =
        TestServer::serve(|limiter| Router::new().route("/", get(answer)).layer(layer.in_store(limiter))).await;
    (server, chunks)
}

/// Reads this number of bytes, in chunks of any size.
async fn read(response: &mut reqwest::Response, mut bytes: usize) {
    while bytes > 0 {
        bytes -= response.chunk().await.expect("it goes on").expect("there is more").len();
    }
}

#[tokio::test]
async fn a_streamed_body_costs_by_the_bytes_sent() {
    let (server, chunks) = streaming(by_size()).await;
    let mut response = server.open(Client::get, "/").await;
    for chunk in [&[1; 1500][..], &[2; 1500], &[3; 1]] {
        chunks.send(chunk).await.expect("it is asked for");
        read(&mut response, chunk.len()).await;
        assert_eq!(server.used(&ten(), ME), 1, "settled once all is sent");
    }
    drop(chunks);
    assert_eq!(response.chunk().await.expect("it ends well"), None);
    assert_eq!(server.used(&ten(), ME), 4, "3001 bytes");
}

#[tokio::test]
async fn a_client_that_disconnects_is_charged_for_the_bytes_sent() {
    let (server, chunks) = streaming(by_size()).await;
    let mut response = server.open(Client::get, "/").await;
    chunks.send(&[1; 2500]).await.expect("it is asked for");
    read(&mut response, 2500).await;
    drop(response);
    chunks.closed().await;
    assert_eq!(server.used(&ten(), ME), 3);
}

#[tokio::test]
async fn each_rule_has_its_own_settlement() {
    let (tokens, requests) = (policy("tokens", &["100/1m"]), policy("requests", &["10/1m"]));
    let rules = [
        Rule::new(ten()).settle_by_size(1),
        Rule::new(tokens.clone()).settle(|response| response.number("x-tokens-used")),
        Rule::new(requests.clone()),
    ];
    let answer = async || ([("x-tokens-used", "42")], "hello");
    let layer = RateLimitLayer::all(rules);
    let server =
        TestServer::serve(|limiter| Router::new().route("/", get(answer)).layer(layer.in_store(limiter))).await;
    server.get("/").await;
    assert_eq!((server.used(&ten(), ME), server.used(&tokens, ME), server.used(&requests, ME)), (5, 42, 1));
}
