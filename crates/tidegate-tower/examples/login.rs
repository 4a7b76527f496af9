//! Protects a login with limits by account and by address. The right password resets the limit of the account.
//!
//! An account allows 5 attempts a minute and 20 a day, from all addresses together. This stops an attacker who guesses
//! the password of one account from many addresses. An address allows 10 attempts a minute, for all accounts together.
//! This stops an attacker who tries one password on many accounts. Both limits are one decision: if one denies, the
//! other is not charged.
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
use tidegate_tower::{OnMissingKey, RateLimitLayer, Rule, key};

/// A login attempt. `read_form` inserts it into the request before the rate limit runs.
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
    // If the store fails, the login is closed. This matters for a shared store such as Redis.
    let by_account = Policy::new("login-account", ["5/1m".parse()?, "20/1d".parse()?])?
        .with_on_store_failure(OnStoreFailure::Closed);
    let by_address = Policy::new("login-address", ["10/1m".parse()?])?.with_on_store_failure(OnStoreFailure::Closed);
    let account = Rule::new(by_account.clone())
        .key(key::Extension::<Attempt>::new(|attempt| Key::new(&attempt.account)))
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
    // Only the limit of the account. A client that knows one password gets no more attempts for its address.
    if let Ok(account) = Key::new(&attempt.account) {
        limits.limiter.reset(&limits.by_account, &account);
    }
    (StatusCode::OK, "welcome\n")
}

/// Reads `account` and `password` of the form, and inserts them into the request's extensions.
async fn read_form(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let body = std::mem::replace(request.body_mut(), Body::empty());
    let form = axum::body::to_bytes(body, 4096).await.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
    let form = std::str::from_utf8(&form).map_err(|_| StatusCode::BAD_REQUEST)?;
    let field = |name: &str| form.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    if let (Some(account), Some(password)) = (field("account"), field("password")) {
        // All spellings of an account's name have to be one key.
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
        println!(
            "{form}: {}{}",
            response.status(),
            retry.map_or(String::new(), |retry| format!(", try again in {retry} s"))
        );
        Ok(response.status().as_u16())
    };
    for _ in 0..4 {
        anyhow::ensure!(attempt("account=alice&password=guess").await? == 401);
    }
    anyhow::ensure!(
        attempt("account=Alice&password=correct+horse").await? == 200,
        "the fifth attempt is within the limit"
    );
    for _ in 0..5 {
        anyhow::ensure!(attempt("account=alice&password=guess").await? == 401, "the limit of the account was reset");
    }
    anyhow::ensure!(attempt("account=alice&password=guess").await? == 429, "the account is over its limit");
    anyhow::ensure!(
        attempt("account=bob&password=guess").await? == 429,
        "the address is over its limit of ten attempts"
    );
    anyhow::ensure!(attempt("password=guess").await? == 400, "a form without an account is a bad request");
    Ok(())
}
