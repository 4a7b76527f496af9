//! Limits on the number of requests at once: when a hold begins and when it ends.

use std::{
    convert::Infallible,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Body, extract::Request, routing::get};
use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use reqwest::Client;
use serde_json::json;
use tidegate::{Clock, Cost, Hold, Key, Limiter, MemoryStore, Mode, Policy, ReservationBounds, Timestamp};
use tidegate_tower::{
    HeaderFormat, RateLimitLayer, Rule,
    key::{Global, Header},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tower::{Layer as _, Service as _, ServiceExt as _};

use crate::{
    deferred_store::DeferredStore,
    gate::Gate,
    test_server::{TestServer, hello, limiter, policy},
};

const ME: &str = "127.0.0.1";

/// Four requests of a client at once.
fn four() -> Policy {
    policy("api", &["4/inflight"])
}

/// The number of open holds of a key, and the units in use under each limit.
pub(crate) fn state(limiter: &Limiter, policy: &Policy, key: &str) -> (usize, Vec<u64>) {
    let state = limiter.inspect(policy, &Key::new(key).expect("a key"));
    state.map_or((0, Vec::new()), |state| {
        (state.reservations.len(), state.limits.iter().map(|limit| limit.used).collect())
    })
}

fn open_holds(limiter: &Limiter, policy: &Policy) -> usize {
    state(limiter, policy, ME).0
}

/// A server whose body comes from a channel, and the sender of the channel. All tasks run on one thread, so that a drop
/// has had all its effects when the test continues.
async fn streaming(layer: RateLimitLayer) -> (TestServer, mpsc::Sender<&'static [u8]>) {
    let (chunks, body) = mpsc::channel(1);
    let body = Arc::new(Mutex::new(Some(body)));
    let answer = async move |_: Request| {
        let mut body = body.lock().expect("no panic").take().expect("one request");
        let body = stream::poll_fn(move |cx| body.poll_recv(cx).map(|chunk| chunk.map(Ok::<_, Infallible>)));
        Body::from_stream(body)
    };
    let server =
        TestServer::serve(|limiter| Router::new().route("/", get(answer)).layer(layer.in_store(limiter))).await;
    (server, chunks)
}

async fn read(response: &mut reqwest::Response, mut bytes: usize) {
    while bytes > 0 {
        bytes -= response.chunk().await.expect("it goes on").expect("there is more").len();
    }
}

#[tokio::test]
async fn a_hold_ends_when_the_body_has_been_sent() {
    let (server, chunks) = streaming(RateLimitLayer::new(four())).await;
    let mut response = server.open(Client::get, "/").await;
    for chunk in [&[1; 1500][..], &[2; 1500], &[3; 1]] {
        chunks.send(chunk).await.expect("it is asked for");
        read(&mut response, chunk.len()).await;
        assert_eq!(open_holds(&server.limiter, &four()), 1, "until all is sent");
    }
    drop(chunks);
    assert_eq!(response.chunk().await.expect("it ends well"), None);
    assert_eq!(open_holds(&server.limiter, &four()), 0);
}

#[tokio::test]
async fn a_hold_ends_when_the_client_is_gone() {
    let (server, chunks) = streaming(RateLimitLayer::new(four())).await;
    let mut response = server.open(Client::get, "/").await;
    chunks.send(&[1; 2500]).await.expect("it is asked for");
    read(&mut response, 2500).await;
    assert_eq!(open_holds(&server.limiter, &four()), 1);
    drop(response);
    chunks.closed().await;
    assert_eq!(open_holds(&server.limiter, &four()), 0);
}

#[tokio::test]
async fn a_hold_ends_when_the_client_is_gone_before_the_response() {
    let (began, mut has_begun) = mpsc::channel::<oneshot::Sender<()>>(1);
    let answer = async move || {
        // The sender gets an error when this future is dropped.
        let (_never, dropped) = oneshot::channel::<()>();
        let (gone, is_gone) = oneshot::channel();
        began.send(gone).await.expect("the test waits");
        let _keep = (dropped, is_gone);
        std::future::pending::<&str>().await
    };
    let layer = RateLimitLayer::new(policy("api", &["4/inflight", "10/1m"]));
    let server =
        TestServer::serve(|limiter| Router::new().route("/", get(answer)).layer(layer.in_store(limiter))).await;
    let of = policy("api", &["4/inflight", "10/1m"]);
    let client = tokio::spawn(Client::new().get(format!("http://{}/", server.address)).send());
    let mut gone = has_begun.recv().await.expect("it begins");
    assert_eq!(state(&server.limiter, &of, ME), (1, vec![1, 1]));
    client.abort();
    gone.closed().await;
    assert_eq!(state(&server.limiter, &of, ME), (0, vec![0, 1]), "the work may have been done, so it stays counted");
}

/// Calls a service once, in its own task. Returns whether the task panicked.
async fn call<I>(layer: &RateLimitLayer<Arc<Limiter>>, service: I) -> Result<Result<Response<Body>, I::Error>, ()>
where
    I: tower::Service<http::Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    I::Error: Send,
    I::Future: Send,
{
    let service = layer.clone().layer(service);
    tokio::spawn(service.oneshot(http::Request::new(Body::empty()))).await.map_err(|_| ())
}

#[tokio::test]
async fn a_hold_ends_when_the_service_panics() {
    let of = policy("api", &["1/inflight", "10/1m"]);
    let (_, limiter) = limiter();
    let layer = RateLimitLayer::new(Rule::new(of.clone()).key(Global)).in_store(limiter.clone());
    let used = || state(&limiter, &of, "everyone");

    let panics_later = tower::service_fn(async |_: http::Request<Body>| -> Result<Response<Body>, Infallible> {
        panic!("on purpose: while the service responds")
    });
    assert!(call(&layer, panics_later).await.is_err());
    assert_eq!(used(), (0, vec![0, 1]));

    let panics_at_once = tower::service_fn(|_: http::Request<Body>| -> std::future::Ready<Result<_, Infallible>> {
        panic!("on purpose: when the service is called")
    });
    assert!(call(&layer, panics_at_once).await.is_err());
    assert_eq!(used(), (0, vec![0, 2]));

    let panics_in_body = tower::service_fn(async |_: http::Request<Body>| {
        let body = stream::poll_fn(|_| -> std::task::Poll<Option<Result<Bytes, Infallible>>> {
            panic!("on purpose: while the body is sent")
        });
        Ok::<_, Infallible>(Response::new(Body::from_stream(body)))
    });
    let response = call(&layer, panics_in_body).await.expect("no panic yet").expect("a response");
    assert_eq!(used(), (1, vec![1, 3]));
    let collected = tokio::spawn(response.into_body().collect()).await;
    assert!(collected.is_err());
    assert_eq!(used(), (0, vec![0, 3]));
}

#[tokio::test]
async fn a_hold_ends_when_the_service_fails() {
    let of = policy("api", &["1/inflight", "10/1m"]);
    for (refunds, charged) in [(false, 1), (true, 0)] {
        let (_, limiter) = limiter();
        let layer = RateLimitLayer::new(Rule::new(of.clone()).key(Global)).in_store(limiter.clone());
        let layer = if refunds { layer.refund_server_errors() } else { layer };
        let fails =
            tower::service_fn(async |_: http::Request<Body>| Err::<Response<Body>, _>(io::Error::other("broken")));
        let error = call(&layer, fails).await.expect("no panic").expect_err("it fails");
        assert_eq!(error.to_string(), "broken", "the service's own error");
        assert_eq!(state(&limiter, &of, "everyone"), (0, vec![0, charged]));
    }
}

#[tokio::test]
async fn a_hold_of_a_whole_body_ends_when_its_bytes_are_dropped() {
    let (_, limiter) = limiter();
    let page = tower::service_fn(async |_: http::Request<Full<Bytes>>| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
    });
    let layer = RateLimitLayer::new(Rule::new(four()).key(Global)).in_store(limiter.clone());
    let response = layer.layer(page).oneshot(http::Request::default()).await.expect("it can't fail");
    let used = || state(&limiter, &four(), "everyone").0;
    let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
    assert_eq!((&*bytes, used()), (&b"hello"[..], 1), "the bytes are not sent yet");
    drop(bytes);
    assert_eq!(used(), 0);
}

#[tokio::test]
async fn a_hold_ends_when_the_last_bytes_have_been_written_and_not_when_the_server_gets_them() {
    let (_, limiter) = limiter();
    let page = tower::service_fn(async |_: http::Request<Body>| {
        Ok::<_, Infallible>(Response::new(Body::from(Bytes::from_static(b"hello"))))
    });
    let layer = RateLimitLayer::new(Rule::new(four()).key(Global)).in_store(limiter.clone());
    let response = layer.layer(page).oneshot(http::Request::new(Body::empty())).await.expect("it can't fail");
    let mut body = response.into_body();
    let last = body.frame().await.expect("a frame").expect("no error").into_data().expect("data");
    // As a server does that has the last bytes, and whose client does not read.
    drop(body);
    assert_eq!((&*last, state(&limiter, &four(), "everyone").0), (&b"hello"[..], 1));
    drop(last);
    assert_eq!(state(&limiter, &four(), "everyone").0, 0);
}

#[tokio::test]
async fn a_page_is_the_same_with_and_without_a_limit_on_requests_at_once() {
    let limited = TestServer::behind(RateLimitLayer::new(four()).headers(HeaderFormat::Off)).await;
    let plain = TestServer::serve(|_| hello()).await;
    let (mut limited, mut plain) = (limited.get("/").await, plain.get("/").await);
    for headers in [&mut limited.headers, &mut plain.headers] {
        headers.remove("date");
    }
    assert_eq!((limited.status, limited.body, limited.headers), (plain.status, plain.body, plain.headers));
}

#[tokio::test]
async fn a_denial_is_429_with_the_time_until_a_hold_ends_by_itself() {
    let gate = Gate::closed();
    let layer = RateLimitLayer::new(policy("api", &["2/inflight"]));
    let server = TestServer::serve(|limiter| gate.router().layer(layer.in_store(limiter))).await;
    let server = Arc::new(server);
    let first = tokio::spawn({
        let server = Arc::clone(&server);
        async move { server.get("/").await }
    });
    gate.wait_for(1).await;
    server.time.advance(Duration::from_secs(10));
    let second = tokio::spawn({
        let server = Arc::clone(&server);
        async move { server.get("/").await }
    });
    gate.wait_for(2).await;
    server.time.advance(Duration::from_micros(9_000_001));
    let denied = server.get("/").await;
    assert_eq!((denied.status, denied.header("retry-after").as_deref()), (429, Some("41")), "60 s less 19.000001 s");
    assert_eq!(denied.header("ratelimit-policy").as_deref(), Some(r#""api";q=2"#));
    assert_eq!(denied.header("ratelimit").as_deref(), Some(r#""api";r=0;t=41"#));
    assert_eq!(denied.json()["violated-policies"], json!(["api"]));
    assert_eq!(denied.json()["detail"], "the limit of 2/inflight is used up: try again in 41 s");

    gate.open(2);
    let (first, second) = (first.await.expect("no panic"), second.await.expect("no panic"));
    assert_eq!((first.status, first.header("ratelimit").as_deref()), (200, Some(r#""api";r=1;t=60"#)));
    assert_eq!((second.status, second.header("ratelimit").as_deref()), (200, Some(r#""api";r=0;t=60"#)));
    gate.open(1);
    assert_eq!(server.get("/").await.status, 200, "both holds have ended");
}

#[tokio::test]
async fn fifty_concurrent_requests_never_exceed_the_limit() {
    let gate = Gate::closed();
    let layer = RateLimitLayer::new(four());
    let server = Arc::new(TestServer::serve(|limiter| gate.router().layer(layer.in_store(limiter))).await);
    let (answers, mut answered) = mpsc::channel(50);
    for _ in 0..50 {
        let (server, answers) = (Arc::clone(&server), answers.clone());
        tokio::spawn(async move { answers.send(server.get("/").await.status).await });
    }
    for _ in 0..46 {
        assert_eq!(answered.recv().await, Some(429));
    }
    gate.wait_for(4).await;
    assert_eq!(open_holds(&server.limiter, &four()), 4);
    gate.open(4);
    for _ in 0..4 {
        assert_eq!(answered.recv().await, Some(200));
    }
    assert_eq!((gate.most(), open_holds(&server.limiter, &four())), (4, 0));
}

#[tokio::test]
async fn a_charge_stays_when_the_hold_ends() {
    let of = policy("api", &["4/inflight", "3/1m"]);
    let server = TestServer::behind(RateLimitLayer::new(of.clone())).await;
    for used in 1..=3 {
        let answer = server.get("/").await;
        let remaining = 3 - used;
        assert_eq!(answer.header("ratelimit"), Some(format!(r#""api:1m";r={remaining};t=60"#)));
        assert_eq!(answer.header("ratelimit-policy").as_deref(), Some(r#""api:inflight";q=4, "api:1m";q=3;w=60"#));
        assert_eq!(state(&server.limiter, &of, ME), (0, vec![0, used]));
    }
    let denied = server.get("/").await;
    assert_eq!((denied.status, denied.header("retry-after").as_deref()), (429, Some("60")));
    assert_eq!(state(&server.limiter, &of, ME), (0, vec![0, 3]), "a denial holds nothing");
}

#[tokio::test]
async fn rules_with_and_without_a_limit_on_requests_at_once_are_one_decision() {
    let (at_once, all) = (policy("at-once", &["1/inflight"]), policy("all", &["3/1m"]));
    let gate = Gate::closed();
    let by_user = Rule::new(at_once.clone()).key(Header::new("x-user").expect("a header's name"));
    let layer = RateLimitLayer::all([by_user, Rule::new(all.clone()).key(Global)]);
    let server = Arc::new(TestServer::serve(|limiter| gate.router().layer(layer.in_store(limiter))).await);
    let ask = async |user| server.get_with("/", &[("x-user", user)]).await;
    let first = tokio::spawn({
        let server = Arc::clone(&server);
        async move { server.get_with("/", &[("x-user", "alice")]).await }
    });
    gate.wait_for(1).await;
    let denied = ask("alice").await;
    assert_eq!((denied.status, denied.header("ratelimit").as_deref()), (429, Some(r#""at-once";r=0;t=60"#)));
    assert_eq!(server.used(&all, "everyone"), 1, "what one rule denies is charged by none");
    gate.open(3);
    let first = first.await.expect("no panic");
    assert_eq!((first.status, first.header("ratelimit").as_deref()), (200, Some(r#""at-once";r=0;t=60"#)));
    assert_eq!((ask("alice").await.status, ask("bob").await.status), (200, 200));
    assert_eq!(state(&server.limiter, &all, "everyone"), (0, vec![3]));
    assert_eq!(ask("carol").await.header("ratelimit").as_deref(), Some(r#""all";r=0;t=60"#));
    assert_eq!(state(&server.limiter, &at_once, "carol").0, 0, "a request that is denied holds nothing");
}

#[tokio::test]
async fn a_request_that_no_such_rule_limits_has_no_hold() {
    let (heavy, all) = (policy("heavy", &["1/inflight"]), policy("all", &["10/1m"]));
    let by_path = Rule::new(heavy.clone()).cost(|request| u64::from(request.uri().path() == "/report"));
    let layer = RateLimitLayer::all([by_path, Rule::new(all.clone())]);
    let (_, limiter) = limiter();
    let held = Arc::new(Mutex::new(Vec::new()));
    let page = {
        let (limiter, held, all) = (limiter.clone(), Arc::clone(&held), all.clone());
        tower::service_fn(move |_: http::Request<Body>| {
            held.lock().expect("no panic").push(open_holds(&limiter, &all));
            std::future::ready(Ok::<_, Infallible>(Response::new(Body::empty())))
        })
    };
    let mut service = layer.in_store(limiter.clone()).layer(page);
    for path in ["/page", "/report", "/page"] {
        let mut request = http::Request::get(path).body(Body::empty()).expect("a request");
        request.extensions_mut().insert(tidegate_tower::PeerAddress(ME.parse().expect("an address")));
        service.call(request).await.expect("it can't fail");
    }
    assert_eq!(*held.lock().expect("no panic"), [0, 1, 0]);
    assert_eq!(state(&limiter, &all, ME), (0, vec![3]));
}

#[tokio::test]
async fn a_policy_in_shadow_mode_holds_and_never_denies() {
    let of = policy("api", &["1/inflight"]).with_mode(Mode::Shadow);
    let gate = Gate::closed();
    let layer = RateLimitLayer::new(of.clone());
    let server = Arc::new(TestServer::serve(|limiter| gate.router().layer(layer.in_store(limiter))).await);
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let server = Arc::clone(&server);
            tokio::spawn(async move { server.get("/").await })
        })
        .collect();
    gate.wait_for(3).await;
    assert!(open_holds(&server.limiter, &of) >= 1);
    gate.open(3);
    for client in clients {
        let answer = client.await.expect("no panic");
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None));
    }
    assert_eq!(open_holds(&server.limiter, &of), 0);
}

#[tokio::test]
async fn tiers_of_one_name_commit_under_their_own_policy() {
    let (free, paid) = (policy("api", &["1/inflight"]), policy("api", &["3/inflight", "10/1m"]));
    let by_plan = Rule::tiers([("free", free), ("paid", paid.clone())], |request| {
        if request.header("x-plan").is_some() { "paid" } else { "free" }
    })
    .expect("two tiers")
    .settle(|_| Some(4));
    let server = TestServer::behind(RateLimitLayer::new(by_plan)).await;
    for used in [4, 8] {
        let answer = server.get_with("/", &[("x-plan", "paid")]).await;
        assert_eq!(answer.header("ratelimit").as_deref(), Some(r#""api:inflight";r=2;t=60"#));
        assert_eq!(state(&server.limiter, &paid, ME), (0, vec![0, used]));
    }
    let answer = server.get("/").await;
    assert_eq!(answer.header("ratelimit").as_deref(), Some(r#""api";r=0;t=60"#));
}

/// A limiter with tokio's clock.
pub(crate) fn with_tokio_clock() -> Arc<Limiter> {
    let (began, start) = (Instant::now(), Timestamp::from_micros(1_745_000_000_000_000));
    let clock = Clock::from_fn(move || start.after(began.elapsed()));
    Arc::new(Limiter::new(MemoryStore::default()).with_clock(clock))
}

/// Calls a page through a layer with `4/inflight` for everyone.
async fn page(layer: RateLimitLayer, limiter: &Arc<Limiter>) -> Response<Full<Bytes>> {
    let page = tower::service_fn(async |_: http::Request<Full<Bytes>>| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
    });
    layer.in_store(Arc::clone(limiter)).layer(page).oneshot(http::Request::default()).await.expect("it can't fail")
}

#[tokio::test(start_paused = true)]
async fn a_long_body_that_nobody_reads_keeps_its_hold() {
    let limiter = with_tokio_clock();
    let response = page(RateLimitLayer::new(Rule::new(four()).key(Global)), &limiter).await;
    for _ in 0..1000 {
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert_eq!(state(&limiter, &four(), "everyone").0, 1, "after nearly two hours");
    }
    drop(response);
    assert_eq!(state(&limiter, &four(), "everyone").0, 0);
}

#[tokio::test(start_paused = true)]
async fn many_long_bodies_keep_their_holds() {
    let limiter = with_tokio_clock();
    let of = policy("api", &["1000/inflight"]);
    let layer = || RateLimitLayer::new(Rule::new(of.clone()).key(Global));
    let service = layer().in_store(DeferredStore::new(limiter.clone())).layer(tower::service_fn(
        async |_: http::Request<Full<Bytes>>| {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
        },
    ));
    let mut responses = Vec::new();
    for _ in 0..500 {
        responses.push(service.clone().oneshot(http::Request::default()).await.expect("it can't fail"));
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(state(&limiter, &of, "everyone"), (500, vec![500]));
    drop(responses);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(state(&limiter, &of, "everyone").0, 0);
}

#[tokio::test(start_paused = true)]
async fn a_long_request_keeps_its_hold_before_the_response() {
    let limiter = with_tokio_clock();
    let slow = tower::service_fn(async |_: http::Request<Full<Bytes>>| {
        tokio::time::sleep(Duration::from_secs(600)).await;
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let layer = RateLimitLayer::new(Rule::new(four()).key(Global)).in_store(limiter.clone());
    let responding = tokio::spawn(layer.layer(slow).oneshot(http::Request::default()));
    for _ in 0..59 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(state(&limiter, &four(), "everyone").0, 1);
    }
    drop(responding.await.expect("no panic"));
    assert_eq!(state(&limiter, &four(), "everyone").0, 0);
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_renewed_within_the_ttl_that_the_policy_allows() {
    let limiter = with_tokio_clock();
    let bounds = ReservationBounds::default().with_max_hold(Duration::from_secs(2)).expect("in range");
    let of = four().with_reservation_bounds(bounds);
    let layer = RateLimitLayer::new(Rule::new(of.clone()).key(Global));
    let response = page(layer, &limiter).await;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let state = limiter.inspect(&of, &Key::new("everyone").expect("a key")).expect("a state");
        let until = state.reservations[0].until.as_micros() - limiter.clock().now().as_micros();
        assert!((1_000_000..=2_000_000).contains(&until), "it is renewed by half of its ttl: {until} us remain");
    }
    drop(response);
}

#[test]
fn a_hold_ends_at_its_ttl_when_the_process_dies() {
    let (time, limiter) = limiter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let layer = RateLimitLayer::new(Rule::new(four()).key(Global)).hold(Hold::new(Duration::from_secs(15)));
    let response = runtime.block_on(page(layer, &limiter));
    // Nothing runs any more, and nothing is dropped.
    std::mem::forget(response);
    drop(runtime);
    time.advance(Duration::from_micros(14_999_999));
    assert_eq!(limiter.peek(&four(), &Key::new("everyone").expect("a key"), Cost::ONE).used(), 1);
    time.advance(Duration::from_micros(1));
    assert_eq!(limiter.peek(&four(), &Key::new("everyone").expect("a key"), Cost::ONE).used(), 0);
}
