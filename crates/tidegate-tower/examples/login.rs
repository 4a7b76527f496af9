//! Protecting a login: a few wrong passwords for an account, more for an address, and a clean slate for who gets it right.
//!
//! An account may be tried 5 times a minute and 20 times a day, whoever tries it: guessing one account's password from a thousand
//! addresses gets nowhere. An address may try 10 times a minute, whatever the account: trying one password on a
//! thousand accounts does not either. Both are one decision, so that who is stopped by one has not spent the other.
//!
//! `cargo run -p tidegate-tower --example login`

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Extension, Router,
    body::Body,
    extract::Request,
    http::StatusCode,
    middleware::{self, Next},
    response::Response,
    routing::post,
};
use tidegate::{Key, Limiter, OnStoreFailure, Policy};
use tidegate_tower::{KeyExtractor, OnMissingKey, RateLimitLayer, Rule};

/// Who wants to log in, as the form says. The layer comes after this has been read.
#[derive(Clone)]
struct Attempt {
    account: String,
    password: String,
}

#[derive(Clone)]
struct Limits {
    limiter: Arc<Limiter>,
    by_account: Policy,
}

fn app() -> anyhow::Result<Router> {
    let limiter = Arc::new(Limiter::default());
    // A login must not be open because a store is away; it matters once this is in Redis.
    let by_account = Policy::new("login-account", ["5/1m".parse()?, "20/1d".parse()?])?
        .with_on_store_failure(OnStoreFailure::Closed);
    let by_address = Policy::new("login-address", ["10/1m".parse()?])?.with_on_store_failure(OnStoreFailure::Closed);
    let account = Rule::new(by_account.clone())
        .key(KeyExtractor::extension(|attempt: &Attempt| &attempt.account))
        .on_missing_key(OnMissingKey::Reject);
    let limit = RateLimitLayer::all([account, Rule::new(by_address)]).in_store(limiter.clone());
    Ok(Router::new()
        .route("/login", post(login))
        .layer(limit)
        .layer(Extension(Limits { limiter, by_account }))
        .layer(middleware::from_fn(read_form)))
}

async fn login(
    Extension(limits): Extension<Limits>,
    Extension(attempt): Extension<Attempt>,
) -> (StatusCode, &'static str) {
    if attempt.password != "correct horse" {
        return (StatusCode::UNAUTHORIZED, "no\n");
    }
    // The account's own limit only: who knows one password has not earned a thousand more guesses from the address.
    if let Ok(account) = Key::new(&attempt.account) {
        limits.limiter.reset(&limits.by_account, &account);
    }
    (StatusCode::OK, "welcome\n")
}

/// Reads `account` and `password` of the form, of which there is little, and puts them beside the request.
async fn read_form(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let body = std::mem::replace(request.body_mut(), Body::empty());
    let form = axum::body::to_bytes(body, 4096).await.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
    let form = std::str::from_utf8(&form).map_err(|_| StatusCode::BAD_REQUEST)?;
    let field = |name: &str| form.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    if let (Some(account), Some(password)) = (field("account"), field("password")) {
        // Names that mean one account have to be one key.
        let account = account.trim().to_lowercase();
        request.extensions_mut().insert(Attempt { account, password: password.replace('+', " ") });
    }
    Ok(next.run(request).await)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let service = app()?.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });

    let client = reqwest::Client::builder().no_proxy().build()?;
    let attempt = async |form: &'static str| -> anyhow::Result<u16> {
        let response = client.post(format!("http://{address}/login")).body(form).send().await?;
        let retry = response.headers().get("retry-after").and_then(|value| value.to_str().ok()).map(str::to_owned);
        println!("{form}: {}{}", response.status(), retry.map_or(String::new(), |retry| format!(", in {retry} s")));
        Ok(response.status().as_u16())
    };
    for _ in 0..4 {
        anyhow::ensure!(attempt("account=alice&password=guess").await? == 401);
    }
    anyhow::ensure!(attempt("account=Alice&password=correct+horse").await? == 200, "the fifth try is still one");
    for _ in 0..5 {
        anyhow::ensure!(attempt("account=alice&password=guess").await? == 401, "a clean slate");
    }
    anyhow::ensure!(attempt("account=alice&password=guess").await? == 429, "of the account");
    anyhow::ensure!(attempt("account=bob&password=guess").await? == 429, "of the address, which has tried ten times");
    anyhow::ensure!(attempt("password=guess").await? == 400, "who does not say whom");
    Ok(())
}
