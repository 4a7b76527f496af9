//! An axum service with two limits: one for each client address, and one for each account by its plan.
//!
//! The plan comes from authentication: a middleware verifies the API key and inserts the account into the request. A
//! client can't choose its plan.
//!
//! `cargo run -p tidegate-tower --example axum_tiers` prints the responses that clients get. With an address as its
//! argument (`-- 127.0.0.1:3000`) it serves until you stop it.

use std::net::SocketAddr;

use axum::{
    Router,
    extract::Request,
    http::StatusCode,
    middleware::{self, Next},
    response::Response,
    routing::get,
};
use tidegate::{Algorithm, Policy};
use tidegate_tower::{OnMissingKey, RateLimitLayer, Rule, key::Extension};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    Free,
    Paid,
}

/// The account of a request. `authenticate` inserts it.
#[derive(Clone)]
struct Account {
    id: u64,
    plan: Plan,
}

/// Finds the account of an API key. A real service looks up a hash of the key in its database.
fn account(api_key: &[u8]) -> Option<Account> {
    match api_key {
        b"alices-secret" => Some(Account { id: 1, plan: Plan::Free }),
        b"bobs-secret" => Some(Account { id: 2, plan: Plan::Paid }),
        _ => None,
    }
}

async fn authenticate(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let account = request.headers().get("x-api-key").and_then(|key| account(key.as_bytes()));
    request.extensions_mut().insert(account.ok_or(StatusCode::UNAUTHORIZED)?);
    Ok(next.run(request).await)
}

fn app() -> anyhow::Result<Router> {
    // This limit applies to all clients, with or without API keys. It also limits how fast a client can guess keys.
    let per_address = Policy::new("address", ["20/1s".parse()?])?.with_algorithm(Algorithm::SlidingCounter);
    let per_address = RateLimitLayer::new(per_address).skip(|request| request.uri().path() == "/healthz");

    // Both policies have the same name, so that an account that is upgraded keeps its history.
    let free = Policy::new("account", ["3/1m".parse()?, "100/1d".parse()?])?;
    let paid = Policy::new("account", ["10/1m".parse()?, "10000/1d".parse()?])?;
    let per_account = Rule::tiers([(Plan::Free, free), (Plan::Paid, paid)], |request| {
        request.extension::<Account>().map_or(Plan::Free, |account| account.plan)
    })?
    .key(Extension::<Account>::new(|account| Ok(account.id.into())))
    .on_missing_key(OnMissingKey::Reject);
    let per_account = RateLimitLayer::new(per_account).refund_server_errors();

    // The layer that is added last runs first: the limit by address, then authentication, then the limit by account.
    let search = get(|| async { "found\n" }).layer(per_account).layer(middleware::from_fn(authenticate));
    Ok(Router::new().route("/search", search).route("/healthz", get(|| async { "ok\n" })).layer(per_address))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let argument = std::env::args().nth(1);
    let listener = tokio::net::TcpListener::bind(argument.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    // The limit by address needs the address of the peer.
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
    let search = |key: &str| client.get(format!("http://{address}/search")).header("x-api-key", key);
    for (key, allowed) in [("alices-secret", 3), ("bobs-secret", 10)] {
        for number in 1..=allowed + 1 {
            // The header is ignored: only the account decides the plan.
            let response = search(key).header("x-plan", "paid").send().await?;
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
    println!("\n{}", search("alices-secret").send().await?.text().await?);
    let status = search("paid-invented").send().await?.status();
    anyhow::ensure!(status == 401, "an invented API key has no account: {status}");
    for _ in 0..50 {
        let response = client.get(format!("http://{address}/healthz")).send().await?;
        anyhow::ensure!(response.status() == 200, "health checks are not limited");
    }
    Ok(())
}
