//! What the layer takes from the heap for a request that is let through: nothing, and next to nothing for what it tells.

use std::{alloc::System, convert::Infallible, net::IpAddr, sync::Arc};

use axum::{Router, body::Body, routing::get};
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, Request, Response, header::CONTENT_TYPE};
use http_body_util::Full;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tidegate::{Algorithm, Limiter, ManualClock, MemoryStore, Policy, Timestamp};
use tidegate_tower::{HeaderFormat, KeyExtractor, PeerAddress, RateLimitLayer, Rule};
use tower::{Layer as _, Service, layer::util::Identity};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUESTS: usize = 1000;

/// A program of its own: the counters are the whole process's, and the test harness has a thread that allocates, too.
fn main() {
    // What test runners ask of a program with tests.
    let asked = |argument: &str| std::env::args().any(|given| given == argument);
    if asked("--list") && !asked("--ignored") {
        println!("the_heap_is_used_as_promised: test");
    } else if !asked("--ignored") {
        the_heap_is_used_as_promised();
        println!("test the_heap_is_used_as_promised ... ok");
    }
}

fn the_heap_is_used_as_promised() {
    let by_header = || KeyExtractor::header("x-api-key").expect("a header's name");
    for (what, by) in [("a header", by_header()), ("the client's address", KeyExtractor::client_ip())] {
        let told = [HeaderFormat::Off, HeaderFormat::Draft10, HeaderFormat::Draft6]
            .map(|dialect| added(&layer(by.clone(), dialect)));
        println!("by {what}, for {REQUESTS} requests: off {}, draft 10 {}, draft 6 {}", told[0], told[1], told[2]);
        assert_eq!(told[0], 0, "by {what}, and nothing is told");
        for (told, dialect, most) in [(told[1], "draft 10", 3), (told[2], "draft 6", 3)] {
            assert!(told <= most * REQUESTS.cast_signed() / 100, "by {what}, told as in {dialect}: {told}");
        }
    }
    for by in [by_header(), KeyExtractor::client_ip()] {
        let limited = in_axum(|app| app.layer(layer(by, HeaderFormat::Off)));
        let (passed, plain) = (in_axum(|app| app.layer(Identity::new())), in_axum(|app| app));
        println!(
            "in axum, for {REQUESTS} requests: {limited}, behind a layer that does nothing {passed}, plain {plain}"
        );
        assert_eq!(limited, passed, "as much as any layer in axum");
    }
}

fn layer(by: KeyExtractor, dialect: HeaderFormat) -> RateLimitLayer {
    let policy = Policy::new("api", ["1000000/1h".parse().expect("a limit")]).expect("a policy");
    let clock = ManualClock::at(Timestamp::from_micros(1_745_000_000_000_000)).clock();
    let limiter = Limiter::new(MemoryStore::default()).with_clock(clock);
    let rule = Rule::new(policy.with_algorithm(Algorithm::SlidingCounter)).key(by);
    RateLimitLayer::new(rule).headers(dialect).in_store(Arc::new(limiter))
}

/// Allocations that the layer adds to a service.
fn added(layer: &RateLimitLayer) -> isize {
    let page = || tower::service_fn(|_: Request<Full<Bytes>>| std::future::ready(Ok::<_, Infallible>(page())));
    taken(layer.layer(page()), Full::default) - taken(page(), Full::default)
}

fn page() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"hello")));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// The same of a router, made ready for requests as axum does before it serves one.
fn in_axum(layered: impl FnOnce(Router) -> Router) -> isize {
    taken(layered(Router::new().route("/", get(|| async { "hello" }))).with_state(()), Body::empty)
}

/// What is taken from the heap for the requests, after as many that are not counted.
fn taken<S, B, R>(mut service: S, body: fn() -> B) -> isize
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible>,
{
    let mut ask = || {
        let mut request = Request::new(body());
        request.headers_mut().insert("x-api-key", HeaderValue::from_static("alice"));
        request.extensions_mut().insert(PeerAddress(IpAddr::from([127, 0, 0, 1])));
        let response = service.call(request).now_or_never().expect("nothing waits").expect("it can't fail");
        assert_eq!(response.status(), 200);
    };
    (0..REQUESTS).for_each(|_| ask());
    let region = Region::new(HEAP);
    (0..REQUESTS).for_each(|_| ask());
    let change = region.change();
    (change.allocations + change.reallocations).cast_signed()
}
