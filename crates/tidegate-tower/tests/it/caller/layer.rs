//! Calls through tower services to real servers. Servers and callers have the same clock.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, UNIX_EPOCH},
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::DATE},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::Full;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tidegate_tower::{
    HeaderFormat, RateLimitLayer,
    caller::{AcquireError, Budget, BudgetService, Call, CallError},
};
use tokio::{net::TcpListener, time::Instant};
use tonic::{
    Code,
    transport::{Endpoint, Server, server::TcpIncoming},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower::{Layer as _, Service as _, ServiceExt as _};

use super::{budget, limiter, policy};

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let serve = axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>());
    tokio::spawn(async move { serve.await });
    address
}

fn calls(budget: &Budget) -> BudgetService<reqwest::Client, reqwest::Request> {
    let order = |request: &reqwest::Request| Call::to_host(request.url().host_str().unwrap_or_default());
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    budget.layer(order).layer(client)
}

fn to(address: SocketAddr, path: &str) -> reqwest::Request {
    let url = format!("http://{address}{path}").parse().expect("a URL");
    reqwest::Request::new(reqwest::Method::GET, url)
}

#[derive(Clone, Default)]
struct Visits(Arc<Mutex<Vec<Instant>>>);

impl Visits {
    /// Records a request. Returns its number.
    fn note(&self) -> usize {
        let mut visits = self.0.lock().expect("no panic");
        visits.push(Instant::now());
        visits.len()
    }

    fn between(&self, earlier: usize, later: usize) -> Duration {
        let visits = self.0.lock().expect("no panic");
        visits[later - 1] - visits[earlier - 1]
    }
}

/// Requests a wait in some responses, each time in another way.
async fn moody(State(visits): State<Visits>) -> impl IntoResponse {
    match visits.note() {
        2 => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "7")]),
        3 => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "40")]),
        4 => (StatusCode::OK, [("ratelimit", "\"default\";r=0;t=11")]),
        5 => (StatusCode::OK, [("ratelimit", "\"default\";r=5;t=11")]),
        _ => (StatusCode::OK, [("x-nothing", "to say")]),
    }
}

#[tokio::test(start_paused = true)]
async fn no_call_is_made_before_the_requested_wait_ends() {
    let visits = Visits::default();
    let address = serve(Router::new().route("/", get(moody)).with_state(visits.clone())).await;
    let budget = budget("100/1s");
    let mut calls = calls(&budget);
    let mut statuses = Vec::new();
    for _ in 0..6 {
        let response = calls.ready().await.expect("ready").call(to(address, "/")).await.expect("an answer");
        statuses.push(response.status().as_u16());
    }
    assert_eq!(statuses, [200, 429, 503, 200, 200, 200], "what it said is passed on as it is");
    for (visit, wait) in [(2, 7), (3, 40), (4, 11)] {
        let waited = visits.between(visit, visit + 1);
        assert!(waited >= Duration::from_secs(wait), "asked {waited:?} after it said {wait} s");
    }
    assert!(visits.between(1, 2) < Duration::from_secs(1) && visits.between(5, 6) < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_never_exceed_the_budget_in_any_window() {
    let visits = Visits::default();
    let note = |State(visits): State<Visits>| async move {
        visits.note();
    };
    let address = serve(Router::new().route("/", get(note)).with_state(visits.clone())).await;
    let budget = budget("5/1s");
    let calls = calls(&budget);
    let began = Instant::now();
    let each = join_all((0..40).map(|_| calls.clone().oneshot(to(address, "/")))).await;
    assert!(each.into_iter().all(|response| response.is_ok_and(|response| response.status() == 200)));
    assert!(began.elapsed() >= Duration::from_secs(7), "40 at 5 a second take 7 s at the least");
    assert_eq!(visits.0.lock().expect("no panic").len(), 40);
}

#[tokio::test(start_paused = true)]
async fn the_layers_own_headers_are_understood_in_every_format() {
    use tidegate_tower::HeaderFormat::{Draft6, Draft10, Off, XRateLimit, XRateLimitSeconds};
    for format in [Draft10, Draft6, XRateLimit, XRateLimitSeconds, Off] {
        let (time, visits) = (limiter(), Visits::default());
        let layer = RateLimitLayer::new(policy("strict", &["1/30s"])).in_store(time.clone()).headers(format);
        let note = |State(visits): State<Visits>| async move {
            visits.note();
        };
        let date = {
            let time = time.clone();
            // The server's clock is that of its limiter.
            move |mut response: Response| {
                let now = UNIX_EPOCH + Duration::from_micros(time.clock().now().as_micros());
                response.headers_mut().insert(DATE, httpdate::fmt_http_date(now).parse().expect("a header's value"));
                std::future::ready(response)
            }
        };
        let app = Router::new().route("/", get(note).layer(layer)).with_state(visits.clone());
        let app = app.layer(middleware::map_response(date));
        let address = serve(app).await;
        // The budget is far too large: only the headers of the server delay its calls.
        let budget = Budget::new(policy("upstream", &["1000/1s"])).in_store(time);
        let mut calls = calls(&budget);
        let mut denied = 0;
        while visits.0.lock().expect("no panic").len() < 4 {
            let response = calls.ready().await.expect("ready").call(to(address, "/")).await.expect("an answer");
            denied += u32::from(response.status() == 429);
        }
        // If successful responses have no headers, each later call is denied once, and is repeated after `Retry-After`.
        let expected = if format == Off { 3 } else { 0 };
        assert_eq!(denied, expected, "{format:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_distinguish_rejected_calls_from_failed_calls() {
    let visits = Visits::default();
    let address = serve(Router::new().route("/", get(moody)).with_state(visits.clone())).await;
    let budget = budget("1/1h").with_max_wait(Duration::from_secs(1));
    let calls = calls(&budget);
    let first = calls.clone().oneshot(to(address, "/")).await;
    assert!(first.is_ok());
    match calls.clone().oneshot(to(address, "/")).await {
        Err(CallError::Budget(AcquireError::TooLate { .. })) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(visits.0.lock().expect("no panic").len(), 1);
    let closed_port =
        TcpListener::bind("127.0.0.1:0").await.and_then(|listener| listener.local_addr()).expect("a port");
    let other = super::budget("1/1h");
    assert!(matches!(self::calls(&other).oneshot(to(closed_port, "/")).await, Err(CallError::Service(_))));
}

#[tokio::test(start_paused = true)]
async fn hypers_client_is_delayed() {
    let visits = Visits::default();
    let address = serve(Router::new().route("/", get(moody)).with_state(visits.clone())).await;
    let budget = budget("100/1s");
    let host = |request: &http::Request<Full<Bytes>>| Call::to_host(request.uri().host().unwrap_or_default());
    let client = Client::builder(TokioExecutor::new()).build_http();
    let mut calls = budget.layer(host).layer(client);
    for _ in 0..3 {
        let request = http::Request::get(format!("http://{address}/")).body(Full::default()).expect("a request");
        calls.ready().await.expect("ready").call(request).await.expect("an answer");
    }
    assert!(visits.between(2, 3) >= Duration::from_secs(7), "it said 7 s");
}

#[tokio::test(start_paused = true)]
async fn a_tonic_channel_waits_as_the_status_requests() {
    let time = limiter();
    let strict = RateLimitLayer::new(policy("strict", &["1/30s"])).in_store(time.clone()).headers(HeaderFormat::Off);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(strict).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let channel = Endpoint::from_shared(format!("http://{address}")).expect("an address").connect_lazy();
    let all_alike = |_: &http::Request<tonic::body::Body>| Call::to_host("health");
    let budget = Budget::new(policy("upstream", &["1000/1s"])).in_store(time);
    let mut client = HealthClient::new(budget.layer(all_alike).layer(channel));
    let began = Instant::now();
    let mut codes = Vec::new();
    for _ in 0..3 {
        let answer = client.check(HealthCheckRequest::default()).await;
        codes.push(answer.map_or_else(|status| status.code(), |_| Code::Ok));
    }
    assert_eq!(codes, [Code::Ok, Code::ResourceExhausted, Code::Ok]);
    assert!(began.elapsed() >= Duration::from_secs(30), "it came back after {:?}", began.elapsed());
}
