//! However a request ends, its hold ends, and its charge is settled once.

use std::{
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use axum::{Router, body::Body, extract::Request, routing::get};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::Client;
use tidegate::{Limiter, Policy};
use tidegate_tower::{RateLimitLayer, Rule, key::Global};
use tokio::{net::TcpStream, runtime::Runtime, sync::mpsc};
use tower::{Layer as _, Service as _, ServiceExt as _};

use crate::{
    deferred_store::DeferredStore,
    in_flight::state,
    test_server::{TestServer, limiter, policy},
};

/// A hold until the end of the request, and a charge.
fn api() -> Policy {
    policy("api", &["4/inflight", "100/1m"])
}

fn layer() -> RateLimitLayer {
    RateLimitLayer::new(Rule::new(api()).key(Global))
}

fn used(limiter: &Limiter) -> (usize, Vec<u64>) {
    state(limiter, &api(), "everyone")
}

const OPEN: (usize, [u64; 2]) = (1, [1, 1]);
const ENDED: (usize, [u64; 2]) = (0, [0, 1]);

#[track_caller]
fn assert_used(limiter: &Limiter, expected: (usize, [u64; 2]), when: &str) {
    assert_eq!(used(limiter), (expected.0, expected.1.to_vec()), "{when}");
}

/// Calls a page with this response.
async fn call(limiter: &Arc<Limiter>, layer: RateLimitLayer, respond: fn() -> Response<Body>) -> Response<Body> {
    let service = tower::service_fn(move |_: Request| std::future::ready(Ok::<_, Infallible>(respond())));
    let layer = layer.in_store(Arc::clone(limiter));
    layer.layer(service).oneshot(Request::new(Body::empty())).await.expect("it can't fail")
}

#[tokio::test]
async fn a_body_that_is_never_polled_ends_its_hold() {
    let (_, limiter) = limiter();
    let response = call(&limiter, layer(), || Response::new(Body::from("hello"))).await;
    assert_used(&limiter, OPEN, "before the body is sent");
    let (_, body) = response.into_parts();
    drop(body);
    assert_used(&limiter, ENDED, "after it is dropped");
}

#[tokio::test]
async fn a_future_that_is_never_polled_ends_its_hold() {
    let (_, limiter) = limiter();
    let page = tower::service_fn(async |_: Request| Ok::<_, Infallible>(Response::new(Body::empty())));
    let mut service = layer().in_store(limiter.clone()).layer(page);
    let responding = service.call(Request::new(Body::empty()));
    assert_used(&limiter, OPEN, "the service was called");
    drop(responding);
    assert_used(&limiter, ENDED, "the work may have been done");

    let mut service = layer().in_store(DeferredStore::new(limiter.clone())).layer(page);
    drop(service.call(Request::new(Body::empty())));
    assert_used(&limiter, ENDED, "a store that is not immediate was not asked");
}

#[tokio::test]
async fn a_body_with_trailers_ends_its_hold_after_them() {
    let (_, limiter) = limiter();
    let response = call(&limiter, layer(), || {
        let trailers: HeaderMap = [(http::header::ETAG, http::HeaderValue::from_static("5"))].into_iter().collect();
        let frames = [Frame::data(Bytes::from_static(b"hello")), Frame::trailers(trailers)];
        Response::new(Body::new(StreamBody::new(stream::iter(frames.map(Ok::<_, Infallible>)))))
    });
    let mut body = response.await.into_body();
    let data = body.frame().await.expect("a frame").expect("no error").into_data().expect("data");
    drop(data);
    assert_used(&limiter, OPEN, "the trailers are not sent yet");
    let trailers = body.frame().await.expect("a frame").expect("no error").into_trailers().expect("trailers");
    assert_eq!(trailers["etag"], "5", "the body's own");
    drop(body);
    assert_used(&limiter, ENDED, "after the trailers");
}

#[tokio::test]
async fn a_body_that_fails_ends_its_hold() {
    let (_, limiter) = limiter();
    let response = call(&limiter, layer(), || {
        let chunks = [Ok(Bytes::from_static(b"hello")), Err(io::Error::other("broken"))];
        Response::new(Body::from_stream(stream::iter(chunks)))
    });
    let body = response.await.into_body();
    assert_used(&limiter, OPEN, "before the body");
    assert!(body.collect().await.is_err());
    assert_used(&limiter, ENDED, "after the failure");
}

#[tokio::test]
async fn an_empty_body_ends_its_hold_at_the_latest_when_it_is_dropped() {
    let (_, limiter) = limiter();
    drop(call(&limiter, layer(), || Response::new(Body::empty())).await);
    assert_used(&limiter, ENDED, "axum's empty body");
    let page = tower::service_fn(async |_: http::Request<Full<Bytes>>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let response = layer().in_store(limiter.clone()).layer(page).oneshot(http::Request::default()).await;
    drop(response.expect("it can't fail"));
    assert_eq!(used(&limiter), (0, vec![0, 2]), "an empty whole body");
}

/// A server with pages of several kinds.
async fn server() -> TestServer {
    let routes = Router::new()
        .route("/page", get(|| async { "hello" }))
        .route("/no-content", get(|| async { StatusCode::NO_CONTENT }))
        .route("/not-modified", get(|| async { (StatusCode::NOT_MODIFIED, "ignored") }));
    TestServer::serve(|limiter| routes.layer(layer().in_store(limiter))).await
}

#[tokio::test]
async fn responses_without_a_body_end_their_holds() {
    let server = server().await;
    for (number, path) in (1..).zip(["/page", "/no-content", "/not-modified", "/missing"]) {
        let by_head = server.send(Client::head, path).await;
        assert!(by_head.body.is_empty(), "{path}");
        server.get(path).await;
        assert_eq!(used(&server.limiter), (0, vec![0, 2 * number]), "{path}");
    }
}

#[tokio::test]
async fn a_stream_that_an_http2_client_resets_ends_its_hold() {
    let (chunks, body) = mpsc::channel::<&'static [u8]>(1);
    let body = Arc::new(Mutex::new(Some(body)));
    let answer = async move || {
        let mut body = body.lock().expect("no panic").take().expect("one request");
        Body::from_stream(stream::poll_fn(move |cx| body.poll_recv(cx).map(|chunk| chunk.map(Ok::<_, Infallible>))))
    };
    let server =
        TestServer::serve(|limiter| Router::new().route("/", get(answer)).layer(layer().in_store(limiter))).await;
    let stream = TcpStream::connect(server.address).await.expect("it listens");
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let uri = format!("http://{}/", server.address);
    let request = http::Request::get(uri).body(Empty::<Bytes>::new()).expect("a request");
    let mut response = sender.send_request(request).await.expect("it answers");
    chunks.send(&[1; 100]).await.expect("it is asked for");
    response.body_mut().frame().await.expect("a frame").expect("no error");
    assert_used(&server.limiter, OPEN, "the stream is open");
    // The connection stays open, and only the stream is reset.
    drop(response);
    chunks.closed().await;
    assert_used(&server.limiter, ENDED, "after the reset");
    drop(sender);
}

#[tokio::test]
async fn a_closure_that_panics_leaves_no_hold() {
    let (_, limiter) = limiter();
    let page = tower::service_fn(async |_: Request| Ok::<_, Infallible>(Response::new(Body::empty())));
    let in_task = async |layer: RateLimitLayer| {
        let service = layer.in_store(limiter.clone()).layer(page);
        let responding = async move { service.oneshot(Request::new(Body::empty())).await.map(drop) };
        assert!(tokio::spawn(responding).await.is_err(), "it panics");
    };
    in_task(layer().on_decision(|_| panic!("on purpose: before the service is called"))).await;
    assert_eq!(used(&limiter), (0, vec![0, 0]), "nothing was done, so all of it is given back");
    in_task(layer().refund_if(|_| panic!("on purpose: when the service has responded"))).await;
    assert_used(&limiter, ENDED, "the work was done");
    let settles = Rule::new(api()).key(Global).settle(|_| panic!("on purpose: when the cost is settled"));
    in_task(RateLimitLayer::new(settles)).await;
    assert_eq!(used(&limiter), (0, vec![0, 2]));
}

#[tokio::test]
async fn each_attempt_of_a_client_that_retries_has_its_own_hold() {
    let (_, limiter) = limiter();
    let at_once = Arc::new(Mutex::new(Vec::new()));
    let page = {
        let (limiter, at_once) = (Arc::clone(&limiter), Arc::clone(&at_once));
        tower::service_fn(move |_: Request| {
            at_once.lock().expect("no panic").push(used(&limiter).0);
            std::future::ready(Err::<Response<Body>, _>(io::Error::other("broken")))
        })
    };
    let mut service = layer().in_store(limiter.clone()).layer(page);
    for _ in 0..3 {
        service.call(Request::new(Body::empty())).await.expect_err("it fails");
    }
    assert_eq!(*at_once.lock().expect("no panic"), [1, 1, 1], "the hold of the last attempt has ended");
    assert_eq!(used(&limiter), (0, vec![0, 3]));
}

/// Starts a request that never responds, and one whose response is never sent. Then drops the whole runtime.
fn drop_the_runtime<S: tidegate::Store + Clone + 'static>(store: S) {
    let runtime = Runtime::new().expect("a runtime");
    let layer = layer().in_store(store);
    let response = runtime.block_on(async {
        let (began, has_begun) = tokio::sync::oneshot::channel();
        let began = Arc::new(Mutex::new(Some(began)));
        let silent = tower::service_fn(move |_: Request| {
            let _ = began.lock().expect("no panic").take().expect("one request").send(());
            std::future::poll_fn(|_| Poll::<Result<Response<Body>, Infallible>>::Pending)
        });
        tokio::spawn(layer.clone().layer(silent).oneshot(Request::new(Body::empty())));
        has_begun.await.expect("it begins");
        let page = tower::service_fn(async |_: Request| Ok::<_, Infallible>(Response::new(Body::from("hello"))));
        layer.layer(page).oneshot(Request::new(Body::empty())).await.expect("it can't fail")
    });
    drop(runtime);
    // Its runtime does not exist any more.
    drop(response);
}

#[test]
fn a_runtime_that_is_dropped_ends_the_holds_of_an_immediate_store() {
    let (_, limiter) = limiter();
    drop_the_runtime(limiter.clone());
    assert_eq!(used(&limiter), (0, vec![0, 2]));
}

#[test]
fn a_runtime_that_is_dropped_leaves_holds_of_other_stores_to_their_ttl() {
    let (time, limiter) = limiter();
    drop_the_runtime(DeferredStore::new(limiter.clone()));
    time.advance(Duration::from_micros(59_999_999));
    assert_eq!(used(&limiter), (2, vec![2, 2]), "nothing can call the store");
    time.advance(Duration::from_micros(1));
    assert_eq!(used(&limiter).0, 0);
}
