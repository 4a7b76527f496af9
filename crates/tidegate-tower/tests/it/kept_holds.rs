//! Holds that last longer than the response: connections that are upgraded, and work in the background.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Extension, Router, body::Body, extract::Request, response::IntoResponse as _, routing::get};
use http::{Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tidegate::{Limiter, Policy};
use tidegate_tower::{CostReport, KeptHold, RateLimitLayer, RequestHold, Rule, key::Global};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::oneshot,
};
use tower::{Layer as _, ServiceExt as _};

use crate::{
    in_flight::{state, with_tokio_clock},
    test_server::{TestServer, limiter, policy},
};

const ME: &str = "127.0.0.1";

fn four() -> Policy {
    policy("api", &["4/inflight"])
}

fn keep(request: &Request) -> Option<KeptHold> {
    request.extensions().get::<RequestHold>().and_then(RequestHold::keep)
}

/// Accepts an upgrade, and echoes what the connection sends until it is closed.
fn echo(mut request: Request, closed: oneshot::Sender<()>) -> Response<Body> {
    let upgraded = hyper::upgrade::on(&mut request);
    let kept = keep(&request);
    tokio::spawn(async move {
        let mut connection = TokioIo::new(upgraded.await.expect("an upgrade"));
        let mut byte = [0];
        while connection.read(&mut byte).await.is_ok_and(|read| read == 1) {
            connection.write_all(&byte).await.expect("it listens");
        }
        drop(kept);
        let _ = closed.send(());
    });
    let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, "echo")];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

#[tokio::test]
async fn a_hold_lasts_as_long_as_an_upgraded_connection_that_keeps_it() {
    let (closed, is_closed) = oneshot::channel();
    let closed = Arc::new(Mutex::new(Some(closed)));
    let answer = move |request: Request| {
        let closed = closed.lock().expect("no panic").take().expect("one request");
        std::future::ready(echo(request, closed))
    };
    let layer = RateLimitLayer::new(four());
    let server =
        TestServer::serve(|limiter| Router::new().route("/", get(answer)).layer(layer.in_store(limiter))).await;
    let mut connection = TcpStream::connect(server.address).await.expect("it listens");
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    connection.write_all(request).await.expect("it reads");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.expect("a response"));
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    for byte in b"hello" {
        connection.write_all(&[*byte]).await.expect("it reads");
        assert_eq!(connection.read_u8().await.expect("an echo"), *byte);
        assert_eq!(state(&server.limiter, &four(), ME).0, 1, "the connection is open");
    }
    drop(connection);
    is_closed.await.expect("it closes");
    assert_eq!(state(&server.limiter, &four(), ME).0, 0);
}

/// Calls a service once.
async fn call(
    layer: RateLimitLayer,
    limiter: &Arc<Limiter>,
    respond: impl Fn(Request) -> Response<Body> + Clone + Send + 'static,
) -> Response<Body> {
    let service = tower::service_fn(move |request| std::future::ready(Ok::<_, Infallible>(respond(request))));
    let layer = layer.in_store(Arc::clone(limiter));
    layer.layer(service).oneshot(Request::new(Body::empty())).await.expect("it can't fail")
}

/// What a service keeps.
type Kept = Arc<Mutex<Vec<KeptHold>>>;

/// A service that keeps the hold of each request, and how it does so.
fn keeping(respond: fn() -> Response<Body>) -> (Kept, impl Fn(Request) -> Response<Body> + Clone + Send + 'static) {
    let kept = Kept::default();
    let keeps = Arc::clone(&kept);
    let service = move |request: Request| {
        keeps.lock().expect("no panic").extend(keep(&request));
        respond()
    };
    (kept, service)
}

#[tokio::test(start_paused = true)]
async fn a_kept_hold_is_renewed_until_the_last_clone_of_it_is_dropped() {
    let limiter = with_tokio_clock();
    let (kept, service) = keeping(|| "accepted".into_response());
    let response = call(RateLimitLayer::new(Rule::new(four()).key(Global)), &limiter, service).await;
    drop(response);
    let kept = kept.lock().expect("no panic").pop().expect("a hold");
    let clone = kept.clone();
    drop(kept);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(state(&limiter, &four(), "everyone"), (1, vec![1]));
    drop(clone);
    assert_eq!(state(&limiter, &four(), "everyone").0, 0);
}

#[tokio::test]
async fn a_kept_hold_does_not_end_before_the_response() {
    let (_, limiter) = limiter();
    let (kept, service) = keeping(|| "hello".into_response());
    let response = call(RateLimitLayer::new(Rule::new(four()).key(Global)), &limiter, service).await;
    kept.lock().expect("no panic").clear();
    assert_eq!(state(&limiter, &four(), "everyone").0, 1);
    drop(response);
    assert_eq!(state(&limiter, &four(), "everyone").0, 0);
}

#[tokio::test]
async fn a_kept_hold_commits_the_final_cost_when_it_ends() {
    let of = policy("tokens", &["100/1m"]);
    let rule = || Rule::new(of.clone()).key(Global).cost(|_| 40).reserve();
    for (rule, respond) in [
        (
            rule().settle(|response| response.number("x-tokens")),
            (|| ([("x-tokens", "25")], "hi").into_response()) as fn() -> _,
        ),
        (rule().settle_by_size(1), || Body::from(vec![0; 25]).into_response()),
        (rule().settle_by_report(), || {
            let report = CostReport::new();
            report.set(25);
            (Extension(report), "hi").into_response()
        }),
    ] {
        let (_, limiter) = limiter();
        let (kept, service) = keeping(respond);
        drop(call(RateLimitLayer::new(rule), &limiter, service).await);
        assert_eq!(state(&limiter, &of, "everyone"), (1, vec![40]), "the work goes on");
        kept.lock().expect("no panic").clear();
        assert_eq!(state(&limiter, &of, "everyone"), (0, vec![25]));
    }
}

#[tokio::test]
async fn a_report_counts_until_the_kept_hold_ends() {
    let of = policy("tokens", &["100/1m"]);
    let report = CostReport::new();
    let (kept, (_, limiter)) = (Kept::default(), limiter());
    let service = {
        let (kept, report) = (Arc::clone(&kept), report.clone());
        move |request: Request| {
            kept.lock().expect("no panic").extend(keep(&request));
            (Extension(report.clone()), "hi").into_response()
        }
    };
    let rule = Rule::new(of.clone()).key(Global).cost(|_| 40).reserve().settle_by_report();
    drop(call(RateLimitLayer::new(rule), &limiter, service).await);
    report.set(33);
    kept.lock().expect("no panic").clear();
    assert_eq!(state(&limiter, &of, "everyone"), (0, vec![33]));
}

#[tokio::test]
async fn a_hold_that_has_ended_can_not_be_kept() {
    let (_, limiter) = limiter();
    let late = Arc::new(Mutex::new(None));
    let service = {
        let late = Arc::clone(&late);
        move |request: Request| {
            *late.lock().expect("no panic") = request.extensions().get::<RequestHold>().cloned();
            "hello".into_response()
        }
    };
    let response = call(RateLimitLayer::new(Rule::new(four()).key(Global)), &limiter, service).await;
    let hold = late.lock().expect("no panic").take().expect("the request is reserved");
    assert!(hold.keep().is_some(), "the response has not been sent");
    assert_eq!(state(&limiter, &four(), "everyone").0, 1, "a request that nobody keeps for longer");
    drop(response);
    assert_eq!(state(&limiter, &four(), "everyone").0, 0, "the extension alone keeps nothing");
    assert!(hold.keep().is_none());
}

#[tokio::test]
async fn several_layers_around_a_service_are_kept_together() {
    let [outer, inner] = [policy("outer", &["4/inflight"]), policy("inner", &["4/inflight"])];
    let (_, limiter) = limiter();
    let layer = |policy: &Policy| RateLimitLayer::new(Rule::new(policy.clone()).key(Global)).in_store(limiter.clone());
    let (kept, service) = keeping(|| "hello".into_response());
    let service = tower::service_fn(move |request| std::future::ready(Ok::<_, Infallible>(service(request))));
    let service = layer(&outer).layer(layer(&inner).layer(service));
    drop(service.oneshot(Request::new(Body::empty())).await.expect("it can't fail"));
    for policy in [&outer, &inner] {
        assert_eq!(state(&limiter, policy, "everyone").0, 1);
    }
    kept.lock().expect("no panic").clear();
    for policy in [&outer, &inner] {
        assert_eq!(state(&limiter, policy, "everyone").0, 0);
    }
}

#[tokio::test]
async fn a_request_without_a_hold_has_nothing_to_keep() {
    let (_, limiter) = limiter();
    let (kept, service) = keeping(|| "hello".into_response());
    let layer = RateLimitLayer::new(Rule::new(policy("api", &["10/1m"])).key(Global));
    drop(call(layer, &limiter, service).await);
    assert!(kept.lock().expect("no panic").is_empty());
}
