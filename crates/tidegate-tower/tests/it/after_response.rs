//! What is corrected when the response is there, or has been sent.

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
use tidegate_tower::{KeyExtractor, PeerAddress, RateLimitLayer, Rule};
use tokio::sync::mpsc;
use tower::{Layer as _, ServiceExt as _};

use crate::site::{Site, limiter, policy};

const ME: &str = "127.0.0.1";

fn ten() -> Policy {
    policy("api", &["10/1m"])
}

/// Answers with the status that the path asks for.
fn statuses() -> Router {
    let answer = async |Path(status): Path<u16>| StatusCode::from_u16(status).expect("a status");
    Router::new().route("/{status}", get(answer))
}

#[tokio::test]
async fn what_the_server_failed_is_given_back_and_what_the_client_did_wrong_is_not() {
    let layer = RateLimitLayer::new(ten()).refund_server_errors();
    let site = Site::serve(|limiter| statuses().layer(layer.in_store(limiter))).await;
    for (status, used) in [(500, 0), (503, 0), (200, 1), (404, 2), (599, 2), (429, 3)] {
        assert_eq!(site.get(&format!("/{status}")).await.status, status);
        assert_eq!(site.used(&ten(), ME), used, "after {status}");
    }
}

#[tokio::test]
async fn what_is_given_back_is_for_the_user_to_say() {
    let layer = RateLimitLayer::new(ten()).refund_if(|response| response.status() == 304);
    let site = Site::serve(|limiter| statuses().layer(layer.in_store(limiter))).await;
    for (status, used) in [(304, 0), (500, 1)] {
        assert_eq!(site.get(&format!("/{status}")).await.status, status);
        assert_eq!(site.used(&ten(), ME), used, "after {status}");
    }
}

#[tokio::test]
async fn all_that_several_rules_charged_is_given_back() {
    let everyone = policy("all", &["10/1m"]);
    let rules = [Rule::new(ten()).cost(|_| 3), Rule::new(everyone.clone()).key(KeyExtractor::global())];
    let layer = RateLimitLayer::all(rules).refund_server_errors();
    let site = Site::serve(|limiter| statuses().layer(layer.in_store(limiter))).await;
    for (status, used) in [(200, (3, 1)), (500, (3, 1)), (200, (6, 2))] {
        site.get(&format!("/{status}")).await;
        assert_eq!((site.used(&ten(), ME), site.used(&everyone, "everyone")), used, "after {status}");
    }
}

#[tokio::test]
async fn a_service_that_fails_without_a_response_is_given_back_too() {
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
async fn a_cost_that_the_response_tells_is_settled_upwards_downwards_and_to_nothing() {
    let rule = Rule::new(ten()).cost(|_| 4).settle(|response| response.number("x-tokens-used"));
    let answer = async |Path(tokens): Path<String>| ([("x-tokens-used", tokens)], "done");
    let layer = RateLimitLayer::new(rule);
    let site =
        Site::serve(|limiter| Router::new().route("/{tokens}", get(answer)).layer(layer.in_store(limiter))).await;
    for (tokens, used) in [("0", 0), ("3", 3), ("unknown", 7)] {
        assert_eq!(site.get(&format!("/{tokens}")).await.status, 200);
        assert_eq!(site.used(&ten(), ME), used, "after {tokens}");
    }
    assert_eq!(site.get("/0").await.status, 429, "7 and 4 are more than 10, whatever it will cost");
    site.time.advance(Duration::from_secs(60));
    assert_eq!(site.get("/25").await.status, 200);
    assert_eq!(site.used(&ten(), ME), 25, "even past the limit");
    assert_eq!(site.get("/0").await.status, 429);
}

#[tokio::test]
async fn who_is_charged_more_in_the_end_is_told_so_at_once() {
    let everyone = policy("all", &["20/1m"]);
    let settled = |policy| Rule::new(policy).settle(|response| response.number("x-tokens-used"));
    let answer = async |Path(tokens): Path<String>| ([("x-tokens-used", tokens)], "done");
    let one = RateLimitLayer::new(settled(ten()));
    let several = RateLimitLayer::all([settled(everyone).key(KeyExtractor::global()), Rule::new(ten())]);
    for (layer, standings) in [
        (one, [r#""api";r=3;t=60"#, r#""api";r=2;t=60"#, r#""api";r=0;t=60"#]),
        (several, [r#""api";r=9;t=60"#, r#""api";r=8;t=60"#, r#""all";r=0;t=60"#]),
    ] {
        let site =
            Site::serve(|limiter| Router::new().route("/{tokens}", get(answer)).layer(layer.in_store(limiter))).await;
        for (tokens, standing) in ["7", "1", "25"].into_iter().zip(standings) {
            let told = site.get(&format!("/{tokens}")).await.header("ratelimit");
            assert_eq!(told.as_deref(), Some(standing), "after {tokens}");
        }
    }
}

#[tokio::test]
async fn what_was_too_much_goes_back_to_the_moment_it_was_charged_and_what_was_too_little_is_charged_now() {
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
    let site = Site::serve(|_| Router::new().route("/{tokens}", get(answer)).layer(layer)).await;
    let used = || limiter.peek(&ten(), &tidegate::Key::new(ME).expect("a key"), tidegate::Cost::ONE).used();

    site.get("/1").await;
    assert_eq!(used(), 1);
    time.advance(Duration::from_micros(49_999_999));
    assert_eq!(used(), 1);
    time.advance(Duration::from_micros(1));
    assert_eq!(used(), 0, "a minute after the call began");

    site.get("/6").await;
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
    let site =
        Site::serve(|limiter| Router::new().route("/{bytes}", get(answer)).layer(by_size().in_store(limiter))).await;
    for (bytes, used) in [(0, 0), (1, 1), (1000, 2), (1001, 4)] {
        assert_eq!(site.get(&format!("/{bytes}")).await.body.len(), bytes);
        assert_eq!(site.used(&ten(), ME), used, "after {bytes}");
    }
}

/// A page whose body is whatever comes out of a channel, and the other end of that.
///
/// The channel closes when the server drops the body. Everything here is on one thread, so that all that a drop does is done
/// when the test goes on.
async fn streaming(layer: RateLimitLayer) -> (Site, mpsc::Sender<&'static [u8]>) {
    let (chunks, body) = mpsc::channel(1);
    let body = std::sync::Arc::new(std::sync::Mutex::new(Some(body)));
    let answer = async move |_: Request| {
        let mut body = body.lock().expect("nobody panics with it").take().expect("it is asked for once");
        let body = stream::poll_fn(move |cx| body.poll_recv(cx).map(|chunk| chunk.map(Ok::<_, Infallible>)));
        Body::from_stream(body)
    };
    let site = Site::serve(|limiter| Router::new().route("/", get(answer)).layer(layer.in_store(limiter))).await;
    (site, chunks)
}

/// Reads so many bytes, in as many pieces as they come.
async fn read(response: &mut reqwest::Response, mut bytes: usize) {
    while bytes > 0 {
        bytes -= response.chunk().await.expect("it goes on").expect("there is more").len();
    }
}

#[tokio::test]
async fn a_streamed_body_costs_what_was_streamed() {
    let (site, chunks) = streaming(by_size()).await;
    let mut response = site.open(Client::get, "/").await;
    for chunk in [&[1; 1500][..], &[2; 1500], &[3; 1]] {
        chunks.send(chunk).await.expect("it is asked for");
        read(&mut response, chunk.len()).await;
        assert_eq!(site.used(&ten(), ME), 1, "settled once all is sent");
    }
    drop(chunks);
    assert_eq!(response.chunk().await.expect("it ends well"), None);
    assert_eq!(site.used(&ten(), ME), 4, "3001 bytes");
}

#[tokio::test]
async fn a_client_that_goes_away_midway_is_charged_for_what_was_sent() {
    let (site, chunks) = streaming(by_size()).await;
    let mut response = site.open(Client::get, "/").await;
    chunks.send(&[1; 2500]).await.expect("it is asked for");
    read(&mut response, 2500).await;
    drop(response);
    chunks.closed().await;
    assert_eq!(site.used(&ten(), ME), 3);
}

#[tokio::test]
async fn each_rule_is_settled_in_its_own_way() {
    let (tokens, requests) = (policy("tokens", &["100/1m"]), policy("requests", &["10/1m"]));
    let rules = [
        Rule::new(ten()).settle_by_size(1),
        Rule::new(tokens.clone()).settle(|response| response.number("x-tokens-used")),
        Rule::new(requests.clone()),
    ];
    let answer = async || ([("x-tokens-used", "42")], "hello");
    let layer = RateLimitLayer::all(rules);
    let site = Site::serve(|limiter| Router::new().route("/", get(answer)).layer(layer.in_store(limiter))).await;
    site.get("/").await;
    assert_eq!((site.used(&ten(), ME), site.used(&tokens, ME), site.used(&requests, ME)), (5, 42, 1));
}
