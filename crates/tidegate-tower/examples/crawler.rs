//! A crawler that keeps many concurrent fetches under an upstream's quota, and pauses if the server requests it.
//!
//! The upstream is a server in this process. It allows 20 requests in any half second, reports its quota in headers, and
//! once answers 503 with a wait. `cargo run -p tidegate-tower --example crawler`

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use tidegate::{Limit, Policy};
use tidegate_tower::{
    RateLimitLayer,
    caller::{Budget, Call},
};
use tower::{Layer as _, ServiceExt as _};

const PAGES: usize = 60;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let upstream = Upstream::default();
    let address = upstream.clone().serve().await?;

    // The upstream counts a request when it arrives, and the budget when it leaves. The longer window covers the
    // variation of the network delay.
    let quota = Limit::new(20, Duration::from_millis(500) + Duration::from_secs(1))?;
    let budget = Budget::new(Policy::new("upstream", [quota])?).with_max_wait(Duration::from_secs(60));
    let by_host = |request: &reqwest::Request| Call::to_host(request.url().host_str().unwrap_or_default());
    let client = budget.layer(by_host).layer(reqwest::Client::builder().no_proxy().build()?);

    let fetch = |page: usize| {
        let client = client.clone();
        tokio::spawn(async move {
            loop {
                let url = format!("http://{address}/page/{page}").parse()?;
                let response = client.clone().oneshot(reqwest::Request::new(reqwest::Method::GET, url)).await?;
                // After a 503, the next call to this host waits as long as the server requests.
                if response.status() != StatusCode::SERVICE_UNAVAILABLE {
                    return anyhow::Ok(response.error_for_status()?.text().await?.len());
                }
            }
        })
    };
    let fetching: Vec<_> = (0..PAGES).map(fetch).collect();
    let mut bytes = 0;
    for page in fetching {
        bytes += page.await??;
    }
    let [served, too_many] = [&upstream.served, &upstream.too_many].map(|count| count.load(Ordering::Relaxed));
    println!("{PAGES} pages, {bytes} bytes; the upstream served {served} requests and denied {too_many}");
    anyhow::ensure!(too_many == 0, "the upstream's quota was exceeded");
    Ok(())
}

/// The upstream server.
#[derive(Clone, Default)]
struct Upstream {
    served: Arc<AtomicU32>,
    too_many: Arc<AtomicU32>,
}

impl Upstream {
    async fn serve(self) -> anyhow::Result<SocketAddr> {
        let too_many = Arc::clone(&self.too_many);
        let limit = RateLimitLayer::new(Policy::new("public", [Limit::new(20, Duration::from_millis(500))?])?)
            .on_decision(move |event| {
                too_many.fetch_add(u32::from(!event.decision.is_allowed()), Ordering::Relaxed);
            });
        let app = Router::new().route("/page/{number}", get(page).layer(limit)).with_state(self);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        Ok(address)
    }
}

async fn page(State(upstream): State<Upstream>) -> impl IntoResponse {
    match upstream.served.fetch_add(1, Ordering::Relaxed) {
        25 => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "1")], ""),
        _ => (StatusCode::OK, [("content-type", "text/plain")], "a page\n"),
    }
}
