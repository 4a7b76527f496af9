//! [`TestServer`]: a server for one test, and its client.

use std::{net::SocketAddr, sync::Arc};

use axum::{Router, routing::any};
use bytes::Bytes;
use http::HeaderMap;
use reqwest::{Client, RequestBuilder};
use tidegate::{Cost, Key, Limiter, ManualClock, MemoryStore, Policy, Timestamp};
use tidegate_tower::RateLimitLayer;
use tokio::net::TcpListener;

/// The time at which every test starts, in seconds.
pub(crate) const START: u64 = 1_745_000_000;

/// A server, its limiter, and the limiter's clock.
pub(crate) struct TestServer {
    pub(crate) time: ManualClock,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) address: SocketAddr,
    client: Client,
}

impl TestServer {
    /// Serves a page with the layer.
    pub(crate) async fn behind(layer: RateLimitLayer) -> Self {
        Self::serve(|limiter| hello().layer(layer.in_store(limiter))).await
    }

    /// Serves a router whose layers keep their state in the limiter.
    pub(crate) async fn serve(app: impl FnOnce(Arc<Limiter>) -> Router) -> Self {
        Self::serve_at("127.0.0.1:0", app).await
    }

    pub(crate) async fn serve_at(address: &str, app: impl FnOnce(Arc<Limiter>) -> Router) -> Self {
        let (time, limiter) = limiter();
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let app = app(Arc::clone(&limiter)).into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { time, limiter, address, client: client("127.0.0.1") }
    }

    /// The same server, with a client that has this address.
    pub(crate) fn with_client_address(&self, address: &str) -> Self {
        let (time, limiter) = (self.time.clone(), Arc::clone(&self.limiter));
        Self { time, limiter, address: self.address, client: client(address) }
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.send(Client::get, path).await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> TestResponse {
        let with = |request: RequestBuilder, (name, value): &(&str, &str)| request.header(*name, *value);
        self.send(|client, url| headers.iter().fold(client.get(url), with), path).await
    }

    pub(crate) async fn send(
        &self,
        request: impl FnOnce(&Client, String) -> RequestBuilder,
        path: &str,
    ) -> TestResponse {
        TestResponse::read(self.open(request, path).await).await
    }

    /// Sends a request, and returns the response before its body is read.
    pub(crate) async fn open(
        &self,
        request: impl FnOnce(&Client, String) -> RequestBuilder,
        path: &str,
    ) -> reqwest::Response {
        let request = request(&self.client, format!("http://{}{path}", self.address));
        request.send().await.expect("it answers")
    }

    /// The units that a key has in use.
    pub(crate) fn used(&self, policy: &Policy, key: &str) -> u64 {
        self.limiter.peek(policy, &Key::new(key).expect("a key"), Cost::ONE).used()
    }
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl TestResponse {
    async fn read(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.bytes().await.expect("a whole body") }
    }

    /// All lines of a header, joined by commas.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let lines: Vec<&str> =
            self.headers.get_all(name).into_iter().map(|line| line.to_str().expect("text")).collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A limiter and its clock.
pub(crate) fn limiter() -> (ManualClock, Arc<Limiter>) {
    let time = ManualClock::at(Timestamp::from_micros(START * 1_000_000));
    let limiter = Limiter::new(MemoryStore::default()).with_clock(time.clock());
    (time, Arc::new(limiter))
}

/// A router that answers `hello` on every path.
pub(crate) fn hello() -> Router {
    let hello = || any(|| async { "hello" });
    Router::new().route("/", hello()).route("/{*rest}", hello())
}

pub(crate) fn policy(name: &str, limits: &[&str]) -> Policy {
    Policy::new(name, limits.iter().map(|limit| limit.parse().expect("a limit"))).expect("a policy")
}

fn client(address: &str) -> Client {
    let address: std::net::IpAddr = address.parse().expect("an address");
    // There are many addresses for this machine in IPv4, and one in IPv6.
    let builder = Client::builder().no_proxy();
    let builder = if address.is_ipv4() { builder.local_address(address) } else { builder };
    builder.build().expect("a client")
}
