//! The layer polls the inner service for readiness, calls it only if it is ready, and never for a denied request.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;
use tidegate_tower::{RateLimit, RateLimitLayer, Rule, key::Global};
use tower::{Layer, Service, ServiceExt as _};

use crate::{
    deferred_store::DeferredStore,
    in_redis::patient,
    test_server::{limiter, policy},
};

/// A service that panics if it is called before it is ready. A clone is not ready.
#[derive(Debug, Default)]
struct Strict {
    closed: Arc<AtomicBool>,
    broken: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    is_ready: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        let (closed, broken) = (Arc::clone(&self.closed), Arc::clone(&self.broken));
        Self { closed, broken, calls: Arc::clone(&self.calls), is_ready: false }
    }
}

impl Service<Request<Full<Bytes>>> for Strict {
    type Response = Response<Full<Bytes>>;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        if self.broken.load(SeqCst) {
            return Poll::Ready(Err("broken"));
        }
        if self.closed.load(SeqCst) {
            return Poll::Pending;
        }
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        assert!(mem::take(&mut self.is_ready), "called before it was ready");
        self.calls.fetch_add(1, SeqCst);
        std::future::ready(Ok(Response::default()))
    }
}

fn twice() -> RateLimitLayer {
    RateLimitLayer::new(Rule::new(policy("api", &["2/1h"])).key(Global))
}

async fn is_as_ready_as_what_is_behind<S>(layer: impl Layer<Strict, Service = S>)
where
    S: Service<Request<Full<Bytes>>, Response = Response<Full<Bytes>>, Error = &'static str>,
{
    let strict = Strict::default();
    let mut service = layer.layer(strict.clone());
    let mut ready = || service.poll_ready(&mut Context::from_waker(Waker::noop()));
    strict.closed.store(true, SeqCst);
    assert!(ready().is_pending());
    strict.broken.store(true, SeqCst);
    assert_eq!(ready(), Poll::Ready(Err("broken")));
    strict.broken.store(false, SeqCst);
    strict.closed.store(false, SeqCst);
    assert_eq!(ready(), Poll::Ready(Ok(())));

    for expected in [200, 200, 429, 429] {
        let service = service.ready().await.expect("it is ready");
        let response = service.call(Request::default()).await.expect("it answers");
        assert_eq!(response.status(), expected);
    }
    assert_eq!(strict.calls.load(SeqCst), 2, "a denied request costs the service nothing");
}

#[tokio::test]
async fn in_memory_the_layer_is_ready_when_the_inner_service_is() {
    is_as_ready_as_what_is_behind(twice().in_store(limiter().1)).await;
}

#[tokio::test]
async fn in_redis_the_ready_clone_is_called() {
    let server = Server::start();
    let store = patient(&server).await;
    is_as_ready_as_what_is_behind(twice().in_store(store)).await;
}

#[tokio::test]
async fn a_layer_that_reserves_is_ready_when_the_inner_service_is() {
    let layer = || RateLimitLayer::new(Rule::new(policy("api", &["4/inflight", "2/1h"])).key(Global));
    is_as_ready_as_what_is_behind(layer().in_store(limiter().1)).await;
    is_as_ready_as_what_is_behind(layer().in_store(DeferredStore::new(limiter().1))).await;
}

#[tokio::test]
async fn skipped_requests_use_the_ready_service() {
    let server = Server::start();
    let store = patient(&server).await;
    let strict = Strict::default();
    let (mut memory, mut redis) =
        (twice().skip(|_| true).layer(strict.clone()), twice().in_store(store).skip(|_| true).layer(strict.clone()));
    for _ in 0..3 {
        let _ = memory.ready().await.expect("it is ready").call(Request::default()).await.expect("it answers");
        let _ = redis.ready().await.expect("it is ready").call(Request::default()).await.expect("it answers");
    }
    assert_eq!(strict.calls.load(SeqCst), 6);
}

#[test]
fn layers_and_services_are_clone_send_and_sync() {
    fn anywhere<T: Clone + Send + Sync + 'static>() {}
    anywhere::<RateLimitLayer>();
    anywhere::<RateLimitLayer<RedisStore>>();
    anywhere::<RateLimit<Strict>>();
    anywhere::<RateLimit<Strict, RedisStore>>();
}

#[tokio::test]
async fn clones_of_a_service_share_one_state() {
    let service = twice().in_store(limiter().1).layer(Strict::default());
    for expected in [200, 200, 429] {
        let response = service.clone().oneshot(Request::default()).await.expect("it answers");
        assert_eq!(response.status(), expected);
    }
}
