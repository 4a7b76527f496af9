//! Requests whose cost is reserved, and settled by the response.

use std::{
    convert::Infallible,
    future::Future,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Extension, Router,
    body::Body,
    extract::Path,
    http::StatusCode,
    response::IntoResponse,
    routing::{any, get},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::Response;
use http_body_util::{BodyExt as _, Full};
use reqwest::Client;
use tidegate::{Hold, Key, Limiter, OnStoreFailure, Policy, Share, Store};
use tidegate_tower::{CostReport, RateLimitLayer, Rule, key::Global};
use tokio::sync::mpsc;
use tower::{Layer as _, ServiceExt as _};

use crate::{
    deferred_store::DeferredStore,
    test_server::{TestServer, limiter, policy},
};

fn hundred() -> Policy {
    policy("tokens", &["100/1m"])
}

/// The number of open holds, and the units in use.
fn state(limiter: &Limiter, policy: &Policy) -> (usize, u64) {
    let state = limiter.inspect(policy, &Key::new("everyone").expect("a key"));
    state.map_or((0, 0), |state| (state.reservations.len(), state.limits[0].used))
}

/// Reserves 40 units for each request.
fn forty() -> Rule {
    Rule::new(hundred()).key(Global).cost(|_| 40).reserve()
}

type FullRequest = http::Request<Full<Bytes>>;

/// The state while the service responds.
type Seen = Arc<Mutex<Vec<(usize, u64)>>>;

/// A service that records the state, and responds with the given tokens and body.
fn service(
    limiter: &Arc<Limiter>,
    respond: impl Fn() -> Response<Body> + Clone + Send + 'static,
) -> (
    Seen,
    impl tower::Service<FullRequest, Response = Response<Body>, Error = Infallible, Future: Send> + Clone + Send + 'static,
) {
    let (seen, limiter) = (Seen::default(), Arc::clone(limiter));
    let record = Arc::clone(&seen);
    let service = tower::service_fn(move |_: FullRequest| {
        record.lock().expect("no panic").push(state(&limiter, &hundred()));
        std::future::ready(Ok(respond()))
    });
    (seen, service)
}

/// Calls the service once under a layer with a store.
async fn respond<S: Store + Clone + 'static>(
    rule: Rule,
    store: S,
    service: impl tower::Service<FullRequest, Response = Response<Body>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + 'static,
) -> Response<Body> {
    let layer = RateLimitLayer::new(rule).refund_server_errors().in_store(store);
    layer.layer(service).oneshot(FullRequest::default()).await.expect("it can't fail")
}

/// Lets the tasks of dropped holds run.
async fn settled<T>(limiter: &Limiter, policy: &Policy, expected: (usize, u64), what: T)
where
    T: std::fmt::Debug,
{
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(state(limiter, policy), expected, "{what:?}");
}

/// A way to respond, and the units that are in use after the head and after the body.
type Case = (&'static str, Rule, fn() -> Response<Body>, (usize, u64), (usize, u64));

fn cases() -> Vec<Case> {
    let header = || Response::builder().header("x-tokens", "25").body(Body::from("hello")).expect("a response");
    let more = || Response::builder().header("x-tokens", "140").body(Body::from("hello")).expect("a response");
    let extension = || (Extension(25_u64), "hello").into_response();
    let neither = || Response::new(Body::from("hello"));
    let failed = || StatusCode::BAD_GATEWAY.into_response();
    let size = || Response::new(Body::from(vec![0; 2500]));
    let streamed = || {
        let chunks = [[0; 1250], [0; 1250]].map(|chunk| Ok::<_, Infallible>(Bytes::from(chunk.to_vec())));
        Response::new(Body::from_stream(stream::iter(chunks)))
    };
    let reported = || {
        let report = CostReport::new();
        let in_stream = report.clone();
        let chunks = stream::iter([10, 20, 25]).map(move |tokens| {
            in_stream.set(tokens);
            Ok::<_, Infallible>("token ")
        });
        (Extension(report), Body::from_stream(chunks)).into_response()
    };
    let unreported = || (Extension(CostReport::new()), "hello").into_response();
    let by_header = || forty().settle(|response| response.number("x-tokens"));
    vec![
        ("header", by_header(), header, (0, 25), (0, 25)),
        ("header above the reserved cost", by_header(), more, (0, 140), (0, 140)),
        ("no header", by_header(), neither, (0, 40), (0, 40)),
        ("server error", by_header(), failed, (0, 0), (0, 0)),
        ("extension", forty().settle(|response| response.extension().copied()), extension, (0, 25), (0, 25)),
        ("known size", forty().settle_by_size(100), size, (0, 25), (0, 25)),
        ("bytes", forty().settle_by_size(100), streamed, (1, 40), (0, 25)),
        ("report", forty().settle_by_report(), reported, (1, 40), (0, 25)),
        ("no report in the response", forty().settle_by_report(), neither, (0, 40), (0, 40)),
        ("a report without a number", forty().settle_by_report(), unreported, (1, 40), (0, 40)),
        ("no settlement", forty(), neither, (0, 40), (0, 40)),
    ]
}

#[tokio::test]
async fn the_layer_settles_by_header_extension_bytes_and_report() {
    for (name, rule, page, after_head, after_body) in cases() {
        let (_, limiter) = limiter();
        let (seen, service) = service(&limiter, page);
        let response = respond(rule, limiter.clone(), service).await;
        assert_eq!(*seen.lock().expect("no panic"), [(1, 40)], "{name}: reserved before the request");
        assert_eq!(state(&limiter, &hundred()), after_head, "{name}: after the head");
        response.into_body().collect().await.expect("a whole body");
        assert_eq!(state(&limiter, &hundred()), after_body, "{name}: after the body");
    }
}

#[tokio::test]
async fn a_store_that_answers_later_settles_the_same() {
    for (name, rule, page, after_head, after_body) in cases() {
        let (_, limiter) = limiter();
        let (seen, service) = service(&limiter, page);
        let response = respond(rule, DeferredStore::new(limiter.clone()), service).await;
        assert_eq!(*seen.lock().expect("no panic"), [(1, 40)], "{name}: reserved before the request");
        assert_eq!(state(&limiter, &hundred()), after_head, "{name}: after the head");
        response.into_body().collect().await.expect("a whole body");
        settled(&limiter, &hundred(), after_body, name).await;
    }
}

#[tokio::test]
async fn a_charge_is_settled_by_a_report_too() {
    for deferred in [false, true] {
        let (_, limiter) = limiter();
        let page = || {
            let report = CostReport::new();
            report.set(25);
            (Extension(report), "hello").into_response()
        };
        let (seen, service) = service(&limiter, page);
        let rule = Rule::new(hundred()).key(Global).cost(|_| 40).settle_by_report();
        let response = if deferred {
            respond(rule, DeferredStore::new(limiter.clone()), service).await
        } else {
            respond(rule, limiter.clone(), service).await
        };
        assert_eq!(*seen.lock().expect("no panic"), [(0, 40)], "charged and not reserved");
        response.into_body().collect().await.expect("a whole body");
        settled(&limiter, &hundred(), (0, 25), deferred).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_the_store_decides_leaves_no_hold() {
    let (_, limiter) = limiter();
    let store = DeferredStore::silent(limiter.clone());
    let (seen, service) = service(&limiter, || Response::new(Body::empty()));
    let layer = RateLimitLayer::new(forty()).in_store(store.clone());
    let mut responding = Box::pin(layer.layer(service).oneshot(FullRequest::default()));
    poll_some(&mut responding).await;
    assert_eq!(state(&limiter, &hundred()), (1, 40), "the store has granted, and the answer is on its way");
    drop(responding);
    store.gate.add_permits(1);
    settled(&limiter, &hundred(), (0, 0), "all of it is given back").await;
    assert_eq!(*seen.lock().expect("no panic"), [], "the service was not called");
}

#[tokio::test]
async fn a_client_that_leaves_while_the_store_commits_is_settled() {
    let (_, limiter) = limiter();
    let store = DeferredStore::new(limiter.clone());
    let (gate, closed) = (Arc::clone(&store.gate), Arc::clone(&store.gate));
    let (_, service) = service(&limiter, move || {
        // From now on, the store does not answer.
        closed.try_acquire().expect("it is open").forget();
        Response::builder().header("x-tokens", "25").body(Body::empty()).expect("a response")
    });
    let rule = forty().settle(|response| response.number("x-tokens"));
    let mut responding =
        Box::pin(RateLimitLayer::new(rule).in_store(store).layer(service).oneshot(FullRequest::default()));
    poll_some(&mut responding).await;
    drop(responding);
    settled(&limiter, &hundred(), (1, 40), "the commit is on its way").await;
    gate.add_permits(1);
    settled(&limiter, &hundred(), (0, 25), "committed").await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_the_store_did_not_answer_is_repeated() {
    for (lost, ends) in [(0, 0), (1, 2), (2, 10)] {
        let (_, limiter) = limiter();
        let store = DeferredStore::new(limiter.clone());
        store.lost_commits.store(lost, std::sync::atomic::Ordering::SeqCst);
        let (_, service) =
            service(&limiter, || Response::builder().header("x-tokens", "25").body(Body::empty()).expect("a response"));
        let began = tokio::time::Instant::now();
        respond(forty().settle(|response| response.number("x-tokens")), store, service).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "the response does not wait for further attempts");
        // A hold lasts one minute: the attempts follow after 1/32 and another 1/8 of it.
        for second in 0..=12 {
            let expected = if second < ends { (1, 40) } else { (0, 25) };
            assert_eq!(state(&limiter, &hundred()), expected, "{lost} were lost, after {second} s");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Polls a future and the tasks of the runtime until nothing more happens.
async fn poll_some<F: Future + Unpin>(future: &mut F) {
    for _ in 0..20 {
        assert!(futures_util::FutureExt::now_or_never(&mut *future).is_none());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn headers_report_the_settled_cost() {
    let rule = || forty().settle(|response| response.number("x-tokens"));
    let page = async |Path(tokens): Path<String>| ([("x-tokens", tokens)], "done");
    let everyone = policy("all", &["20/1m"]);
    let one = RateLimitLayer::new(rule());
    let several = RateLimitLayer::all([rule(), Rule::new(everyone).key(Global)]);
    for (layer, quotas) in [
        (one, [r#""tokens";r=90;t=60"#, r#""tokens";r=50;t=60"#, r#""tokens";r=0;t=60"#]),
        (several, [r#""all";r=19;t=60"#, r#""all";r=18;t=60"#, r#""tokens";r=0;t=60"#]),
    ] {
        let server =
            TestServer::serve(|limiter| Router::new().route("/{tokens}", get(page)).layer(layer.in_store(limiter)))
                .await;
        for (tokens, quota) in ["10", "unknown", "80"].into_iter().zip(quotas) {
            let answer = server.get(&format!("/{tokens}")).await;
            assert_eq!(answer.header("ratelimit").as_deref(), Some(quota), "after {tokens}");
        }
        let denied = server.get("/0").await;
        assert_eq!((denied.status, denied.header("retry-after").as_deref()), (429, Some("60")));
    }
}

#[tokio::test]
async fn each_rule_of_a_hold_has_its_own_settlement() {
    let (requests, bytes) = (policy("requests", &["10/1m"]), policy("bytes", &["10000/1m"]));
    let rules = [
        forty().settle(|response| response.number("x-tokens")),
        Rule::new(requests.clone()).key(Global),
        Rule::new(bytes.clone()).key(Global).settle_by_size(1),
    ];
    let page = async || {
        let body = Body::from_stream(stream::iter(["hello", "world"].map(Ok::<_, Infallible>)));
        ([("x-tokens", "25")], body)
    };
    let layer = RateLimitLayer::all(rules);
    let server = TestServer::serve(|limiter| Router::new().route("/", get(page)).layer(layer.in_store(limiter))).await;
    assert_eq!(server.get("/").await.status, 200);
    let used = [&hundred(), &requests, &bytes].map(|policy| server.used(policy, "everyone"));
    assert_eq!(used, [25, 1, 10]);
}

/// Fifty concurrent calls reserve 20 of 100 tokens each. The upstream reports what each has spent.
#[tokio::test]
async fn fifty_concurrent_calls_never_spend_more_than_the_budget() {
    let (began, mut has_begun) = mpsc::channel(50);
    let (respond, may_respond) = tokio::sync::watch::channel(false);
    let page = async move || {
        began.send(()).await.expect("the test waits");
        may_respond.clone().wait_for(|may| *may).await.expect("it is sent");
        [("x-tokens", "13")]
    };
    let rule = Rule::new(hundred()).key(Global).cost(|_| 20).reserve().settle(|response| response.number("x-tokens"));
    let layer = RateLimitLayer::new(rule);
    let server = TestServer::serve(|limiter| Router::new().route("/", any(page)).layer(layer.in_store(limiter))).await;
    let (answers, mut answered) = mpsc::channel(50);
    for _ in 0..50 {
        let (url, answers) = (format!("http://{}/", server.address), answers.clone());
        tokio::spawn(async move {
            answers.send(Client::new().get(url).send().await.expect("an answer").status().as_u16()).await
        });
    }
    for _ in 0..45 {
        assert_eq!(answered.recv().await, Some(429));
    }
    for _ in 0..5 {
        assert_eq!(has_begun.recv().await, Some(()));
    }
    assert_eq!(state(&server.limiter, &hundred()), (5, 100));
    respond.send(true).expect("five wait");
    for _ in 0..5 {
        assert_eq!(answered.recv().await, Some(200));
    }
    assert_eq!(state(&server.limiter, &hundred()), (0, 5 * 13));
}

#[tokio::test]
async fn a_service_error_gives_a_hold_back_if_the_layer_refunds() {
    for (refunds, used) in [(true, 0), (false, 40)] {
        let (_, limiter) = limiter();
        let failing =
            tower::service_fn(async |_: FullRequest| Err::<Response<Full<Bytes>>, _>(io::Error::other("broken")));
        let layer = RateLimitLayer::new(forty()).in_store(limiter.clone());
        let layer = if refunds { layer.refund_server_errors() } else { layer };
        layer.layer(failing).oneshot(FullRequest::default()).await.expect_err("it fails");
        assert_eq!(state(&limiter, &hundred()), (0, used));
    }
}

#[test]
fn units_of_a_process_that_died_come_back_if_the_hold_is_released() {
    for (hold, used) in
        [(Hold::new(Duration::from_secs(30)), 0), (Hold::new(Duration::from_secs(30)).spent_at_end(), 40)]
    {
        let (time, limiter) = limiter();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (_, service) = service(&limiter, || {
            (Extension(CostReport::new()), Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()))
                .into_response()
        });
        let layer = RateLimitLayer::new(forty().settle_by_report()).hold(hold).in_store(limiter.clone());
        let response = runtime.block_on(layer.layer(service).oneshot(FullRequest::default())).expect("it can't fail");
        // Nothing runs any more, and nothing is dropped.
        std::mem::forget(response);
        drop(runtime);
        time.advance(Duration::from_secs(30));
        assert_eq!(state(&limiter, &hundred()), (0, used));
    }
}

/// A store that never answers.
#[derive(Debug, Clone)]
struct Broken;

impl Store for Broken {
    async fn reserve(
        &self,
        _: &Policy,
        _: &Key<'_>,
        _: tidegate::Cost,
        _: Hold,
    ) -> Result<tidegate::Reserved, tidegate::StoreError> {
        Err(tidegate::StoreError::Unavailable { cause: "broken", message: "no answer".to_owned() })
    }

    async fn reserve_all(
        &self,
        _: &[tidegate::Spend<'_>],
        _: Hold,
    ) -> Result<tidegate::ReservedAll, tidegate::StoreError> {
        Err(tidegate::StoreError::Unavailable { cause: "broken", message: "no answer".to_owned() })
    }

    async fn decide(
        &self,
        _: tidegate::Op,
        _: &Policy,
        _: &Key<'_>,
        _: tidegate::Cost,
    ) -> Result<tidegate::Decision, tidegate::StoreError> {
        Err(tidegate::StoreError::Unsupported { operation: "decide" })
    }

    async fn decide_all(
        &self,
        _: tidegate::Op,
        _: &[tidegate::Spend<'_>],
    ) -> Result<tidegate::Decisions, tidegate::StoreError> {
        Err(tidegate::StoreError::Unsupported { operation: "decide_all" })
    }

    async fn refund(
        &self,
        _: &Policy,
        _: &Key<'_>,
        _: tidegate::Cost,
        _: tidegate::Timestamp,
    ) -> Result<tidegate::Refund, tidegate::StoreError> {
        Err(tidegate::StoreError::Unsupported { operation: "refund" })
    }

    async fn reset(&self, _: &Policy, _: &Key<'_>) -> Result<bool, tidegate::StoreError> {
        Err(tidegate::StoreError::Unsupported { operation: "reset" })
    }

    async fn inspect(&self, _: &Policy, _: &Key<'_>) -> Result<Option<tidegate::Inspection>, tidegate::StoreError> {
        Err(tidegate::StoreError::Unsupported { operation: "inspect" })
    }
}

#[tokio::test]
async fn without_a_store_the_policy_decides_on_requests_at_once() {
    let share = Share::new(0.5).expect("in range");
    for (choice, statuses) in [
        (OnStoreFailure::Open, [200; 4]),
        (OnStoreFailure::Closed, [503; 4]),
        (OnStoreFailure::Local(share), [200, 200, 429, 429]),
    ] {
        let of = policy("api", &["4/inflight"]).with_on_store_failure(choice);
        let layer = RateLimitLayer::new(Rule::new(of).key(Global)).in_store(Broken);
        let page = tower::service_fn(async |_: FullRequest| {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
        });
        let service = layer.layer(page);
        let mut responses = Vec::new();
        for _ in 0..4 {
            responses.push(service.clone().oneshot(FullRequest::default()).await.expect("it can't fail"));
        }
        assert_eq!(responses.iter().map(|response| response.status().as_u16()).collect::<Vec<_>>(), statuses);
        assert!(responses[0].headers().contains_key("ratelimit") == matches!(choice, OnStoreFailure::Local(_)));
        responses.clear();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let next = service.oneshot(FullRequest::default()).await.expect("it can't fail");
        assert_eq!(next.status(), statuses[0], "{choice:?}: the holds have ended");
    }
}
