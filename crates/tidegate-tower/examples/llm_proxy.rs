//! A proxy in front of a language model, with a budget of tokens for each API key.
//!
//! The cost of a call is known only at the end of its stream. If a proxy checks the budget, makes the call and then
//! reports the usage, all calls that run at once pass the check. This proxy reserves the longest possible answer, streams
//! the answer, and commits the usage that the upstream reports in its last event. A client that leaves early pays for
//! the tokens that were sent.
//!
//! The upstream is a server in this process. `cargo run -p tidegate-tower --example llm_proxy`

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use anyhow::Context as _;
use axum::{
    Extension, Json, Router,
    body::Body,
    extract::{Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::post,
};
use futures_util::{future::join_all, stream};
use serde::{Deserialize, Serialize};
use tidegate::{Cost, Key, Limiter, Policy};
use tidegate_tower::{CostReport, RateLimitLayer, Rule, key::Header};
use tokio::net::TcpListener;

const BUDGET: u64 = 1_000;
const CALLS: u64 = 50;

/// The body of a call.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Completion {
    prompt_tokens: u64,
    max_tokens: u64,
}

/// The last event of a stream.
#[derive(Debug, Serialize, Deserialize)]
struct Usage {
    total_tokens: u64,
}

/// The proxy. `rule` counts the calls.
fn proxy(rule: Rule, limiter: Arc<Limiter>, upstream: SocketAddr) -> Router {
    Router::new()
        .route("/completions", post(forward))
        .with_state((reqwest::Client::new(), format!("http://{upstream}/completions")))
        .layer(RateLimitLayer::new(rule).refund_server_errors().in_store(limiter))
        // The outermost layer: it runs before the limit, which needs the number of tokens.
        .layer(middleware::from_fn(read_completion))
}

/// Reads the body of a call, and inserts it into the request.
async fn read_completion(request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, 64 * 1024).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let Ok(completion) = serde_json::from_slice::<Completion>(&bytes) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    head.extensions.insert(completion);
    next.run(Request::from_parts(head, Body::from(bytes))).await
}

/// Forwards a call, and reports its usage while the answer is streamed.
async fn forward(
    State((client, url)): State<(reqwest::Client, String)>,
    Extension(completion): Extension<Completion>,
) -> Response {
    let Ok(answer) = client.post(url).json(&completion).send().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let cost = CostReport::new();
    // Until the first event: the prompt is spent.
    cost.set(completion.prompt_tokens);
    let events = EventReader { cost: cost.clone(), line: Vec::new(), tokens: completion.prompt_tokens };
    let body = stream::try_unfold((answer, events), |(mut answer, mut events)| async {
        let chunk = answer.chunk().await?;
        Ok::<_, reqwest::Error>(chunk.map(|chunk| {
            events.read(&chunk);
            (chunk, (answer, events))
        }))
    });
    (Extension(cost), Body::from_stream(body)).into_response()
}

/// Reads the events of a stream, which may be split anywhere.
struct EventReader {
    cost: CostReport,
    line: Vec<u8>,
    tokens: u64,
}

impl EventReader {
    fn read(&mut self, chunk: &[u8]) {
        for byte in chunk {
            if *byte != b'\n' {
                // A longer line is not an event of this upstream.
                if self.line.len() < 1024 {
                    self.line.push(*byte);
                }
                continue;
            }
            if let Some(event) = self.line.strip_prefix(b"data: ") {
                self.tokens = match serde_json::from_slice::<Usage>(event) {
                    Ok(usage) => usage.total_tokens,
                    Err(_) => self.tokens + 1,
                };
                self.cost.set(self.tokens);
            }
            self.line.clear();
        }
    }
}

/// The model: a server that streams one event for each token, and then the usage. It counts all tokens.
async fn start_upstream(spent: Arc<AtomicU64>) -> anyhow::Result<SocketAddr> {
    let complete = async move |Json(completion): Json<Completion>| {
        // Answers have different lengths, and few have the longest.
        let tokens = completion.max_tokens * (completion.prompt_tokens * 7919 % 60 + 30) / 100;
        let total_tokens = completion.prompt_tokens + tokens;
        spent.fetch_add(total_tokens, SeqCst);
        let usage = serde_json::to_string(&Usage { total_tokens }).unwrap_or_default();
        let events = (0..tokens).map(|_| "data: token\n".to_owned()).chain([format!("data: {usage}\n")]);
        Body::from_stream(stream::iter(events.map(Ok::<_, Infallible>)))
    };
    serve(Router::new().route("/completions", post(complete))).await
}

async fn serve(app: Router) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

/// The outcome of many calls at once.
struct Outcome {
    answered: usize,
    denied: usize,
    spent_upstream: u64,
    counted: u64,
}

/// Makes all calls at once through a proxy that counts by `rule`.
async fn call_at_once(policy: &Policy, rule: Rule) -> anyhow::Result<Outcome> {
    let (limiter, spent) = (Arc::new(Limiter::default()), Arc::<AtomicU64>::default());
    let upstream = start_upstream(Arc::clone(&spent)).await?;
    let address = serve(proxy(rule, Arc::clone(&limiter), upstream)).await?;
    let client = reqwest::Client::new();
    let call = |number: u64| {
        let body = Completion { prompt_tokens: 10 + number, max_tokens: 120 };
        let request = client.post(format!("http://{address}/completions")).header("x-api-key", "alice").json(&body);
        async move {
            let response = request.send().await?;
            let status = response.status();
            response.bytes().await?;
            anyhow::Ok(status)
        }
    };
    let statuses: Vec<StatusCode> = join_all((0..CALLS).map(call)).await.into_iter().collect::<Result<_, _>>()?;
    let count = |wanted| statuses.iter().filter(|status| **status == wanted).count();
    let (answered, denied) = (count(StatusCode::OK), count(StatusCode::TOO_MANY_REQUESTS));
    anyhow::ensure!(answered + denied == statuses.len(), "other answers: {statuses:?}");
    let key = Key::new("alice")?;
    let counted = limiter.inspect(policy, &key).context("the key was counted")?.limits[0].used;
    anyhow::ensure!(limiter.peek(policy, &key, Cost::ONE).used() == counted, "no call is under way");
    Ok(Outcome { answered, denied, spent_upstream: spent.load(SeqCst), counted })
}

fn tokens(request: &tidegate_tower::RequestHead<'_>) -> u64 {
    request.extension::<Completion>().map_or(0, |completion| completion.prompt_tokens + completion.max_tokens)
}

// On one thread, so that a stream that a client has read is settled when the client continues.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let policy = Policy::new("tokens", [format!("{BUDGET}/1h").parse()?])?;
    let by_key = || anyhow::Ok(Rule::new(policy.clone()).key(Header::new("x-api-key")?).settle_by_report());

    println!("{CALLS} calls at once, with a budget of {BUDGET} tokens\n");
    println!("                               answered  denied  tokens upstream  tokens counted");
    let row = |name: &str, outcome: &Outcome| {
        let Outcome { answered, denied, spent_upstream, counted } = outcome;
        println!("{name:30}{answered:>9}{denied:>8}{spent_upstream:>17}{counted:>16}");
    };
    let checked = call_at_once(&policy, by_key()?).await?;
    row("checked, then charged", &checked);
    let reserved = call_at_once(&policy, by_key()?.cost(tokens).reserve()).await?;
    row("reserved, then committed", &reserved);

    anyhow::ensure!(checked.spent_upstream > BUDGET, "calls that are only checked were expected to exceed the budget");
    anyhow::ensure!(reserved.spent_upstream <= BUDGET, "the budget was exceeded");
    anyhow::ensure!(reserved.counted == reserved.spent_upstream, "what the upstream reports is what was counted");
    anyhow::ensure!(reserved.answered >= 6, "reserving must not waste the budget: {} answers", reserved.answered);
    Ok(())
}
