//! The cost of HTTP and JSON alone: a route with the requests and responses of `/v1/check` that decides nothing.

use std::net::SocketAddr;

use anyhow::Result;
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use super::process;

#[derive(Debug, Deserialize)]
struct Request {
    policy: String,
    key: String,
    cost: u64,
}

#[derive(Debug, Serialize)]
struct CheckResponse {
    allowed: bool,
    reason: &'static str,
    policy: String,
    limit: &'static str,
    used: u64,
    remaining: u64,
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
    charged_at_us: Option<u64>,
    degraded: bool,
    leased: bool,
}

async fn check(Json(request): Json<Request>) -> Json<CheckResponse> {
    Json(CheckResponse {
        allowed: !request.key.is_empty(),
        reason: "allowed",
        policy: request.policy,
        limit: "1000000/1m",
        used: request.cost,
        remaining: 1_000_000 - request.cost,
        retry_after_ms: None,
        reset_after_ms: 60_000,
        charged_at_us: Some(1_700_000_000_000_000),
        degraded: false,
        leased: false,
    })
}

/// Serves the route until the process ends.
///
/// # Errors
/// If the address can't be used.
pub fn serve(address: SocketAddr) -> Result<()> {
    let router = Router::new().route("/v1/check", post(check));
    process::serve(address, |listener| axum::serve(listener, router))
}
