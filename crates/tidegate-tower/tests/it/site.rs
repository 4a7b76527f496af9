//! A router that is served for one test, and a client of it.

use std::{net::SocketAddr, sync::Arc};

use axum::{Router, routing::any};
use bytes::Bytes;
use http::HeaderMap;
use reqwest::{Client, RequestBuilder};
use tidegate::{Cost, Key, Limiter, ManualClock, MemoryStore, Policy, Timestamp};
use tidegate_tower::RateLimitLayer;
use tokio::net::TcpListener;

/// When every test begins, in seconds.
pub(crate) const START: u64 = 1_745_000_000;

/// A server, its limiter, and the time that this goes by.
pub(crate) struct Site {
    pub(crate) time: ManualClock,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) address: SocketAddr,
    client: Client,
}

impl Site {
    /// Serves a page that says hello, behind `layer`.
    pub(crate) async fn behind(layer: RateLimitLayer) -> Self {
        Self::serve(|limiter| hello().layer(layer.in_store(limiter))).await
    }

    /// Serves a router whose layers keep their state in the limiter that is given.
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

    /// The same, visited by a client that has this address.
    pub(crate) fn visited_from(&self, address: &str) -> Self {
        let (time, limiter) = (self.time.clone(), Arc::clone(&self.limiter));
        Self { time, limiter, address: self.address, client: client(address) }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Client::get, path).await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let with = |request: RequestBuilder, (name, value): &(&str, &str)| request.header(*name, *value);
        self.send(|client, url| headers.iter().fold(client.get(url), with), path).await
    }

    pub(crate) async fn send(&self, request: impl FnOnce(&Client, String) -> RequestBuilder, path: &str) -> Answer {
        Answer::of(self.open(request, path).await).await
    }

    /// The same, with the body still to come.
    pub(crate) async fn open(
        &self,
        request: impl FnOnce(&Client, String) -> RequestBuilder,
        path: &str,
    ) -> reqwest::Response {
        let request = request(&self.client, format!("http://{}{path}", self.address));
        request.send().await.expect("it answers")
    }

    /// What a key has in use.
    pub(crate) fn used(&self, policy: &Policy, key: &str) -> u64 {
        self.limiter.peek(policy, &Key::new(key).expect("a key"), Cost::ONE).used()
    }
}

/// What a server said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    async fn of(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.bytes().await.expect("a whole body") }
    }

    /// All lines of a header as one, as everyone on the way may join them.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let lines: Vec<&str> =
            self.headers.get_all(name).into_iter().map(|line| line.to_str().expect("text")).collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A limiter, and its time.
pub(crate) fn limiter() -> (ManualClock, Arc<Limiter>) {
    let time = ManualClock::at(Timestamp::from_micros(START * 1_000_000));
    let limiter = Limiter::new(MemoryStore::default()).with_clock(time.clock());
    (time, Arc::new(limiter))
}

/// A page that says hello, whatever is asked for.
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
