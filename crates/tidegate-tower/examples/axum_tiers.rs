//! An axum service with two limits: one for each client address, and one for each API key by its tier.
//!
//! `cargo run -p tidegate-tower --example axum_tiers` prints the responses that clients get. With an address as its
//! argument (`-- 127.0.0.1:3000`) it serves until you stop it.

use std::net::SocketAddr;

use axum::{Router, routing::get};
use tidegate::{Algorithm, Policy};
use tidegate_tower::{KeyExtractor, RateLimitLayer, Rule};

fn app() -> anyhow::Result<Router> {
    // This limit applies to all clients, with or without API keys.
    let per_address = Policy::new("address", ["20/1s".parse()?])?.with_algorithm(Algorithm::SlidingCounter);

    // Both tiers have the same name, so that a key that is upgraded keeps its history.
    let free = Policy::new("key", ["3/1m".parse()?, "100/1d".parse()?])?;
    let paid = Policy::new("key", ["10/1m".parse()?, "10000/1d".parse()?])?;
    let per_key = Rule::tiers([free, paid], |request| match request.header("x-api-key") {
        Some(key) if key.starts_with(b"paid-") => 1,
        _ => 0,
    })
    .key(KeyExtractor::header("x-api-key")?);

    // The route limits API keys. The router limits addresses, even for pages that do not exist.
    Ok(Router::new()
        .route("/search", get(|| async { "found\n" }).layer(RateLimitLayer::new(per_key).refund_server_errors()))
        .route("/healthz", get(|| async { "ok\n" }))
        .layer(RateLimitLayer::new(per_address).skip(|request| request.uri().path() == "/healthz")))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let argument = std::env::args().nth(1);
    let listener = tokio::net::TcpListener::bind(argument.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    // The layer needs the address of the peer.
    let service = app()?.into_make_service_with_connect_info::<SocketAddr>();
    let serving = tokio::spawn(async move { axum::serve(listener, service).await });
    if argument.is_some() {
        println!("http://{address}/search");
        return Ok(serving.await??);
    }
    send_requests(address).await
}

/// Sends requests, and checks the responses.
async fn send_requests(address: SocketAddr) -> anyhow::Result<()> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    for (key, allowed) in [("free-alice", 3), ("paid-bob", 10)] {
        for number in 1..=allowed + 1 {
            let response = client.get(format!("http://{address}/search")).header("x-api-key", key).send().await?;
            let [quota, retry] = ["ratelimit", "retry-after"].map(|name| {
                response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("-").to_owned()
            });
            let status = response.status();
            println!("{key} {number}: {status}, ratelimit: {quota}, retry-after: {retry}");
            anyhow::ensure!(
                status.is_success() == (number <= allowed),
                "{key} may send {allowed} requests, and this is number {number}"
            );
        }
    }
    println!(
        "\n{}",
        client.get(format!("http://{address}/search")).header("x-api-key", "free-alice").send().await?.text().await?
    );
    for _ in 0..50 {
        let response = client.get(format!("http://{address}/healthz")).send().await?;
        anyhow::ensure!(response.status() == 200, "health checks are not limited");
    }
    Ok(())
}
