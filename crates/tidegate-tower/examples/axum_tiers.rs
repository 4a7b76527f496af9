//! An axum service with two limits: one for each client's address, and one for each API key by what it pays.
//!
//! `cargo run -p tidegate-tower --example axum_tiers` shows what clients get; with an address behind it (`-- 127.0.0.1:3000`) it
//! serves until you stop it.

use std::net::SocketAddr;

use axum::{Router, routing::get};
use tidegate::{Algorithm, Policy};
use tidegate_tower::{KeyExtractor, RateLimitLayer, Rule};

fn app() -> anyhow::Result<Router> {
    // Nobody gets around this one: also who has a key, or many, has an address.
    let per_address = Policy::new("address", ["20/1s".parse()?])?.with_algorithm(Algorithm::SlidingCounter);

    // Both have one name, so that a key that is upgraded keeps what it has spent.
    let free = Policy::new("key", ["3/1m".parse()?, "100/1d".parse()?])?;
    let paid = Policy::new("key", ["10/1m".parse()?, "10000/1d".parse()?])?;
    let per_key = Rule::tiers([free, paid], |request| match request.header("x-api-key") {
        Some(key) if key.starts_with(b"paid-") => 1,
        _ => 0,
    })
    .key(KeyExtractor::header("x-api-key")?);

    // Around the route: its key. Around the router: the address, for pages that are not there, too.
    Ok(Router::new()
        .route("/search", get(|| async { "found\n" }).layer(RateLimitLayer::new(per_key).refund_server_errors()))
        .route("/healthz", get(|| async { "ok\n" }))
        .layer(RateLimitLayer::new(per_address).skip(|request| request.uri().path() == "/healthz")))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let given = std::env::args().nth(1);
    let listener = tokio::net::TcpListener::bind(given.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    // By this, the layer knows whose request it is.
    let service = app()?.into_make_service_with_connect_info::<SocketAddr>();
    let serving = tokio::spawn(async move { axum::serve(listener, service).await });
    if given.is_some() {
        println!("http://{address}/search");
        return Ok(serving.await??);
    }
    show(address).await
}

/// Asks as clients do, and sees to it that the answers are right.
async fn show(address: SocketAddr) -> anyhow::Result<()> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    for (key, allowed) in [("free-alice", 3), ("paid-bob", 10)] {
        for number in 1..=allowed + 1 {
            let response = client.get(format!("http://{address}/search")).header("x-api-key", key).send().await?;
            let [standing, retry] = ["ratelimit", "retry-after"].map(|name| {
                response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("-").to_owned()
            });
            let status = response.status();
            println!("{key} {number}: {status}, ratelimit: {standing}, retry-after: {retry}");
            anyhow::ensure!(status.is_success() == (number <= allowed), "{key} has {allowed}, and this is {number}");
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
