//! The layer with its state in Redis, and without an answer from Redis.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::Body,
    http::{Request, Response, StatusCode},
    routing::{any, get},
};
use futures_util::StreamExt as _;
use serde_json::json;
use tidegate::{Algorithm, Cost, Key, OnStoreFailure, Policy, Share, Store as _};
use tidegate_redis::{BreakerState, RedisStore};
use tidegate_testbed::Server;
use tidegate_tower::{
    CostReport, RateLimitLayer, Rule,
    key::{Global, Header},
};
use tower::{Layer as _, ServiceExt as _};

use crate::{
    gate::Gate,
    test_server::{TestServer, hello, policy},
};

/// A store with a long timeout, for slow machines, that does not reconnect soon.
pub(crate) async fn patient(server: &Server) -> RedisStore {
    let long = Duration::from_secs(600);
    let store = RedisStore::builder(&server.url()).timeout(long).probe_interval(long).connect().expect("a store");
    store.ready().await;
    store
}

async fn used(store: &RedisStore, policy: &Policy, key: &str) -> u64 {
    store.peek(policy, &Key::new(key).expect("a key"), Cost::ONE).await.expect("an answer").used()
}

#[tokio::test]
async fn nodes_share_one_limit_through_redis() {
    let server = Server::start();
    let layer = async || RateLimitLayer::new(policy("api", &["2/1d"])).in_store(patient(&server).await);
    let (one, other) = (layer().await, layer().await);
    let (one, other) =
        (TestServer::serve(|_| hello().layer(one)).await, TestServer::serve(|_| hello().layer(other)).await);
    let first = one.get("/").await;
    assert_eq!((first.status, first.header("ratelimit").as_deref()), (200, Some(r#""api";r=1;t=86400"#)));
    assert_eq!(first.header("ratelimit-policy").as_deref(), Some(r#""api";q=2;w=86400"#));
    let second = other.get("/").await;
    assert_eq!((second.status, second.header("ratelimit").as_deref()), (200, Some(r#""api";r=0;t=86400"#)));
    for server in [one, other] {
        let denied = server.get("/").await;
        assert_eq!((denied.status, &denied.json()["violated-policies"]), (429, &json!(["api"])));
        let wait: u64 = denied.header("retry-after").expect("a denial has the header").parse().expect("whole seconds");
        assert!((1..=86_400).contains(&wait), "{wait}");
        assert_eq!(denied.header("ratelimit"), Some(format!(r#""api";r=0;t={wait}"#)));
    }
}

#[tokio::test]
async fn several_rules_are_one_decision_in_redis() {
    let server = Server::start();
    let store = patient(&server).await;
    let (user, all) = (policy("user", &["1/1d"]), policy("all", &["2/1d"]));
    let by_user = Rule::new(user.clone()).key(Header::new("x-user").expect("a header's name"));
    let layer = RateLimitLayer::all([by_user, Rule::new(all.clone()).key(Global)]).in_store(store.clone());
    let server = TestServer::serve(|_| hello().layer(layer)).await;
    let ask = async |user| {
        let answer = server.get_with("/", &[("x-user", user)]).await;
        (answer.status, answer.header("ratelimit").and_then(|text| text.split(';').next().map(str::to_owned)))
    };
    let expected = |status: u16, name: &str| (status, Some(name.to_owned()));
    assert_eq!(ask("alice").await, expected(200, r#""user""#));
    assert_eq!(ask("alice").await, expected(429, r#""user""#));
    assert_eq!(used(&store, &all, "everyone").await, 1, "what one denies is charged by none");
    assert_eq!(ask("bob").await.0, 200);
    assert_eq!(ask("carol").await, expected(429, r#""all""#));
    assert_eq!(used(&store, &user, "carol").await, 0);
}

#[tokio::test]
async fn settlements_and_refunds_reach_redis() {
    let server = Server::start();
    let store = patient(&server).await;
    let api = policy("api", &["100/1d"]);
    let rule = Rule::new(api.clone()).key(Global).cost(|_| 4).settle(|response| response.number("x-used"));
    let layer = RateLimitLayer::new(rule).refund_server_errors().in_store(store.clone());
    let pages = Router::new()
        .route("/fails", any(|| async { StatusCode::BAD_GATEWAY }))
        .route("/less", get(|| async { [("x-used", "1")] }))
        .route("/more", get(|| async { [("x-used", "10")] }));
    let server = TestServer::serve(|_| pages.layer(layer)).await;
    for (path, expected) in [("/fails", 0), ("/less", 1), ("/more", 11), ("/fails", 11)] {
        let answer = server.get(path).await;
        assert_eq!(used(&store, &api, "everyone").await, expected, "after {path}");
        if path == "/more" {
            assert_eq!(
                answer.header("ratelimit").as_deref(),
                Some(r#""api";r=89;t=86400"#),
                "the settled charge is reported"
            );
        }
    }
}

#[tokio::test]
async fn a_service_error_is_refunded_in_redis() {
    let server = Server::start();
    let store = patient(&server).await;
    let api = policy("api", &["100/1d"]);
    let rule = Rule::new(api.clone()).key(Global);
    let failing = tower::service_fn(async |_: Request<Body>| Err::<Response<Body>, _>("the machine is on fire"));
    for (layer, expected) in
        [(RateLimitLayer::new(rule.clone()), 1), (RateLimitLayer::new(rule).refund_server_errors(), 1)]
    {
        let service = layer.in_store(store.clone()).layer(failing);
        let error = service.oneshot(Request::default()).await.expect_err("it fails");
        assert_eq!((error, used(&store, &api, "everyone").await), ("the machine is on fire", expected));
    }
}

#[tokio::test]
async fn a_streamed_body_is_settled_in_redis_after_it_is_sent() {
    let server = Server::start();
    let store = patient(&server).await;
    let api = policy("api", &["100/1d"]);
    let rule = Rule::new(api.clone()).key(Global).settle_by_size(1000);
    let layer = RateLimitLayer::new(rule).in_store(store.clone());
    let chunks = || futures_util::stream::iter([[0; 1100], [0; 1100]].map(|chunk| Ok::<_, Infallible>(chunk.to_vec())));
    let answer = async move || Body::from_stream(chunks());
    let server = TestServer::serve(|_| Router::new().route("/", get(answer)).layer(layer)).await;
    assert_eq!(server.get("/").await.body.len(), 2200);
    // By a task of its own, which nobody hears of.
    while used(&store, &api, "everyone").await == 1 {}
    assert_eq!(used(&store, &api, "everyone").await, 3);
}

/// A store that has detected that its server is down.
async fn bereaved() -> RedisStore {
    let server = Server::start();
    let store = patient(&server).await;
    server.kill();
    let nobody = Key::new("nobody").expect("a key");
    while store.breakers().iter().any(|(_, state)| *state == BreakerState::Closed) {
        let _ = store.peek(&policy("any", &["1/1d"]), &nobody, Cost::ONE).await;
    }
    store
}

async fn without_redis(choice: OnStoreFailure) -> TestServer {
    let policy = policy("api", &["4/1d"]).with_on_store_failure(choice);
    let layer = RateLimitLayer::new(policy).in_store(bereaved().await);
    TestServer::serve(|_| hello().layer(layer)).await
}

#[tokio::test]
async fn without_redis_an_open_policy_admits_all_requests() {
    let server = without_redis(OnStoreFailure::Open).await;
    for _ in 0..6 {
        let answer = server.get("/").await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, None), "where it stands is what nobody knows");
    }
}

#[tokio::test]
async fn without_redis_a_closed_policy_answers_503() {
    let server = without_redis(OnStoreFailure::Closed).await;
    let denied = server.get("/").await;
    assert_eq!((denied.status, denied.header("retry-after")), (503, None));
    assert_eq!(denied.header("ratelimit"), None, "where it stands is what nobody knows");
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
        "title": "Request cannot be satisfied due to temporary server capacity constraints",
        "status": 503,
        "detail": "the rate limit can't be checked at the moment",
    });
    assert_eq!(denied.json(), expected);
}

#[tokio::test]
async fn without_redis_a_local_policy_gives_each_node_its_share() {
    let server = without_redis(OnStoreFailure::Local(Share::new(0.5).expect("in range"))).await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(server.get("/").await.status);
    }
    assert_eq!(statuses, [200, 200, 429], "half of 4");
}

/// A policy that is decided locally without Redis, and a store that detects an outage soon.
pub(crate) async fn local(server: &Server) -> (Policy, RedisStore) {
    let api = policy("api", &["100/1d"]).with_algorithm(Algorithm::SlidingCounter);
    let short = Duration::from_secs(1);
    let store = RedisStore::builder(&server.url()).timeout(short).probe_interval(short).connect().expect("a store");
    store.ready().await;
    (api.with_on_store_failure(OnStoreFailure::Local(Share::ALL)), store)
}

/// Spends a unit in Redis, as soon as Redis answers.
pub(crate) async fn spend(store: &RedisStore, policy: &Policy, key: &Key<'_>) {
    let policy = policy.clone().with_on_store_failure(OnStoreFailure::Closed);
    while !store.check(&policy, key, Cost::ONE).await.expect("an answer").is_allowed() {
        tokio::task::yield_now().await;
    }
}

/// The units in use in Redis, as soon as Redis answers.
pub(crate) async fn used_there(store: &RedisStore, policy: &Policy, key: &Key<'_>) -> u64 {
    loop {
        let seen = store.peek(policy, key, Cost::ONE).await.expect("an answer");
        if !seen.is_degraded() {
            return seen.used();
        }
    }
}

#[tokio::test]
async fn a_local_charge_is_not_refunded_in_redis() {
    let server = Arc::new(Server::start());
    let (api, store) = local(&server).await;
    let everyone = Key::new("everyone").expect("a key");
    spend(&store, &api, &everyone).await;
    let failing = {
        let (server, store, api) = (Arc::clone(&server), store.clone(), api.clone());
        tower::service_fn(move |_: Request<Body>| {
            let (server, store, api) = (Arc::clone(&server), store.clone(), api.clone());
            async move {
                server.resume();
                spend(&store, &api, &Key::new("everyone").expect("a key")).await;
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                Ok::<_, Infallible>(response)
            }
        })
    };
    let rule = Rule::new(api.clone()).key(Global);
    let layer = RateLimitLayer::new(rule).refund_server_errors().in_store(store.clone());
    server.pause();
    let response = layer.layer(failing).oneshot(Request::default()).await.expect("it can't fail");
    assert_eq!(response.status(), 502);
    assert_eq!(used_there(&store, &api, &everyone).await, 2, "both that were spent in Redis");
}

#[tokio::test]
async fn nodes_share_one_limit_on_requests_at_once_through_redis() {
    let server = Server::start();
    let of = policy("jobs", &["4/inflight"]);
    let gate = Gate::closed();
    let node = async || {
        let layer = RateLimitLayer::new(Rule::new(of.clone()).key(Global)).in_store(patient(&server).await);
        Arc::new(TestServer::serve(|_| gate.router().layer(layer)).await)
    };
    let nodes = [node().await, node().await];
    let ask = |number: usize| {
        let node = Arc::clone(&nodes[number % 2]);
        tokio::spawn(async move { node.get("/").await })
    };
    let running: Vec<_> = (0..4).map(ask).collect();
    gate.wait_for(4).await;
    for number in 0..2 {
        let denied = ask(number).await.expect("no panic");
        assert_eq!((denied.status, denied.header("ratelimit-policy").as_deref()), (429, Some(r#""jobs";q=4"#)));
        let wait: u64 = denied.header("retry-after").expect("a denial has the header").parse().expect("whole seconds");
        assert!((1..=60).contains(&wait), "{wait}");
    }
    gate.open(4);
    for answer in running {
        assert_eq!(answer.await.expect("no panic").status, 200);
    }
    // By tasks of their own, which nobody hears of.
    let store = patient(&server).await;
    while used(&store, &of, "everyone").await > 0 {}
    gate.open(1);
    assert_eq!(ask(0).await.expect("no panic").status, 200);
}

#[tokio::test]
async fn a_reserved_request_is_settled_in_redis_by_what_its_stream_reports() {
    let server = Server::start();
    let store = patient(&server).await;
    let (tokens, calls) = (policy("tokens", &["100/1d"]), policy("calls", &["2/inflight", "50/1d"]));
    let rules = [
        Rule::new(tokens.clone()).key(Global).cost(|_| 60).reserve().settle_by_report(),
        Rule::new(calls.clone()).key(Global),
    ];
    let layer = RateLimitLayer::all(rules).in_store(store.clone());
    let answer = async || {
        let report = CostReport::new();
        let in_stream = report.clone();
        let chunks = futures_util::stream::iter([10, 25]).map(move |tokens| {
            in_stream.set(tokens);
            Ok::<_, Infallible>("token ")
        });
        (Extension(report), Body::from_stream(chunks))
    };
    let server = TestServer::serve(|_| Router::new().route("/", get(answer)).layer(layer)).await;
    let first = server.get("/").await;
    assert_eq!((first.status, first.header("ratelimit").as_deref()), (200, Some(r#""calls:inflight";r=1;t=60"#)));
    // By a task of its own, which nobody hears of.
    while used(&store, &tokens, "everyone").await == 60 {}
    assert_eq!(used(&store, &tokens, "everyone").await, 25);
    let state = store.inspect(&calls, &Key::new("everyone").expect("a key")).await.expect("an answer");
    let state = state.expect("a state");
    assert_eq!((state.reservations.len(), state.limits[0].used, state.limits[1].used), (0, 0, 1));
}
