//! The layer allocates nothing for an admitted request, and almost nothing for its headers.

use std::{alloc::System, convert::Infallible, net::IpAddr, sync::Arc};

use axum::{Router, body::Body, routing::get};
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, Request, Response, header::CONTENT_TYPE};
use http_body_util::Full;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tidegate::{Algorithm, Key, Limiter, ManualClock, MemoryStore, Policy, Timestamp};
use tidegate_tower::{
    HeaderFormat, PeerAddress, RateLimitLayer, Rule,
    key::{ClientIp, Extension, Global, Header, KeyExtractor},
};
use tower::{Layer as _, Service, layer::util::Identity};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUESTS: usize = 1000;

#[derive(Clone)]
struct Account {
    id: &'static str,
}

/// A separate program, because the counters cover the whole process and the test harness allocates in its own thread.
fn main() {
    // The arguments of test runners.
    let has = |argument: &str| std::env::args().any(|given| given == argument);
    if has("--list") && !has("--ignored") {
        println!("admitted_requests_do_not_allocate: test");
    } else if !has("--ignored") {
        admitted_requests_do_not_allocate();
        println!("test admitted_requests_do_not_allocate ... ok");
    }
}

fn admitted_requests_do_not_allocate() {
    let extractors: [(&str, Arc<dyn KeyExtractor>); 4] = [
        ("a header", Arc::new(Header::new("x-api-key").expect("a header's name"))),
        ("the client's address", Arc::new(ClientIp)),
        ("an extension", Arc::new(Extension::<Account>::new(|account| Key::new(account.id)))),
        ("one key for all", Arc::new(Global)),
    ];
    for (name, key) in &extractors {
        for (format, max) in [(HeaderFormat::Off, 0), (HeaderFormat::Draft10, 3), (HeaderFormat::Draft6, 3)] {
            let count = added(&layer(Arc::clone(key), format));
            println!("by {name}, for {REQUESTS} requests with {format:?}: {count}");
            assert!((0..=max * REQUESTS.cast_signed() / 100).contains(&count), "by {name}, with {format:?}: {count}");
        }
    }
    for (_, key) in extractors {
        let limited = in_axum(|app| app.layer(layer(key, HeaderFormat::Off)));
        let (passed, plain) = (in_axum(|app| app.layer(Identity::new())), in_axum(|app| app));
        println!(
            "in axum, for {REQUESTS} requests: {limited}, with a layer that does nothing {passed}, without a layer {plain}"
        );
        assert_eq!(limited, passed, "the layer allocates as much as any layer in axum");
    }
}

fn layer(key: Arc<dyn KeyExtractor>, format: HeaderFormat) -> RateLimitLayer {
    let policy = Policy::new("api", ["1000000/1h".parse().expect("a limit")]).expect("a policy");
    let clock = ManualClock::at(Timestamp::from_micros(1_745_000_000_000_000)).clock();
    let limiter = Limiter::new(MemoryStore::default()).with_clock(clock);
    let rule = Rule::new(policy.with_algorithm(Algorithm::SlidingCounter)).key(key);
    RateLimitLayer::new(rule).headers(format).in_store(Arc::new(limiter))
}

/// The number of allocations that the layer adds to a service.
fn added(layer: &RateLimitLayer) -> isize {
    let page = || tower::service_fn(|_: Request<Full<Bytes>>| std::future::ready(Ok::<_, Infallible>(page())));
    allocations(layer.layer(page()), Full::default) - allocations(page(), Full::default)
}

fn page() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"hello")));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// The number of allocations of a router, prepared as axum does before it serves requests.
fn in_axum(layered: impl FnOnce(Router) -> Router) -> isize {
    allocations(layered(Router::new().route("/", get(|| async { "hello" }))).with_state(()), Body::empty)
}

/// The number of allocations for the requests, after the same number of requests to warm up.
fn allocations<S, B, R>(mut service: S, body: fn() -> B) -> isize
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible>,
{
    let mut send = || {
        let mut request = Request::new(body());
        request.headers_mut().insert("x-api-key", HeaderValue::from_static("alice"));
        request.extensions_mut().insert(Account { id: "alice" });
        request.extensions_mut().insert(PeerAddress(IpAddr::from([127, 0, 0, 1])));
        let response = service
            .call(request)
            .now_or_never()
            .expect("the response is immediate")
            .expect("the service is infallible");
        assert_eq!(response.status(), 200);
    };
    (0..REQUESTS).for_each(|_| send());
    let region = Region::new(HEAP);
    (0..REQUESTS).for_each(|_| send());
    let change = region.change();
    (change.allocations + change.reallocations).cast_signed()
}
