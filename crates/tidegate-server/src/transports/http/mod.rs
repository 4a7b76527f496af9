//! HTTP and JSON. A request's way: `connection` reads it, `guard` lets it in, `request` says what it asks for, `decide`,
//! `admin` and `forward` ask the service, `headers` and the shared `body` write the answer.

mod admin;
mod arriving_body;
pub(crate) mod connection;
pub(crate) mod dashboard;
mod decide;
mod forward;
mod guard;
mod guest;
mod headers;
mod openapi;
mod overrides;
mod patience;
mod problem;
mod query;
mod request;
mod status;
mod unread_body;
mod words;
mod wrong_tokens;

use std::{pin::pin, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    extract::Request as HttpRequest,
    http::{HeaderMap, Method, StatusCode, Uri},
    routing::{get, post},
};
use futures_util::FutureExt as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

pub(crate) use self::openapi::KeySchema;
use self::{problem::Problem, request::Request};
use crate::{access::Access, door::House, metrics::Transport};

/// What is served where.
pub(crate) fn router(house: &House) -> Router {
    Router::new()
        .route("/v1/check", post(decide::check))
        .route("/v1/peek", post(decide::peek))
        .route("/v1/charge", post(decide::charge))
        .route("/v1/refund", post(admin::refund))
        .route("/v1/reset", post(admin::reset))
        .route("/v1/inspect", get(admin::inspect))
        .route("/v1/override", post(overrides::put))
        .route("/v1/override/lift", post(overrides::lift))
        .route("/v1/overrides", get(overrides::list))
        .route("/v1/forward", forward::routes())
        .route("/v1/policies", get(status::policies))
        .route("/v1/overview", get(dashboard::overview))
        .route("/v1/hits", get(dashboard::hits))
        .route("/v1/live", get(dashboard::live))
        .route("/v1/session", get(dashboard::session).post(dashboard::log_in).delete(dashboard::log_out))
        .route("/", get(dashboard::page))
        .route("/assets/{name}", get(dashboard::asset))
        .route("/healthz", get(status::healthz))
        .route("/readyz", get(status::readyz))
        .route("/metrics", get(status::metrics))
        .route("/openapi.json", get(openapi::document))
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        // A request takes its state along: one count to keep, instead of one for all that is in it.
        .with_state(Arc::new(house.clone()))
}

async fn nowhere(uri: Uri) -> Problem {
    let message = format!("there is nothing at `{}`: /openapi.json tells what there is", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "", message)
}

async fn not_so(method: Method, uri: Uri) -> Problem {
    let message = format!("`{}` takes no {method}: /openapi.json tells what it takes", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "", message)
}

/// Lets a request with a body in and reads the body, within its bounds of size and time.
async fn body(house: &House, needed: Access, request: HttpRequest) -> Result<Bytes, Problem> {
    admit(house, request.headers(), request.uri(), needed)?;
    read(house, request).await.inspect_err(|_| house.service.metrics().refused(Transport::Http))
}

async fn read(house: &House, request: HttpRequest) -> Result<Bytes, Problem> {
    guard::content_type(request.headers())?;
    let bounds = &house.settings.bounds;
    let too_large = || {
        let message = format!("the body has more than {} bytes: send less at once", bounds.body);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "", message)
    };
    let mut whole = pin!(Limited::new(request.into_body(), bounds.body).collect());
    // Nearly always all of it is there already, and no timer is needed.
    let read = match whole.as_mut().now_or_never() {
        Some(read) => Ok(read),
        None => tokio::time::timeout(bounds.header_timeout, whole).await,
    };
    match read {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::new(StatusCode::BAD_REQUEST, "", "the body could not be read to its end")),
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "", "the body took too long to arrive")),
    }
}

/// Lets a request without a body in.
fn admit(house: &House, headers: &HeaderMap, uri: &Uri, needed: Access) -> Result<(), Problem> {
    let admitted = guard::origin(&house.settings, headers, uri);
    let admitted = admitted.and_then(|()| access(house, headers, needed));
    admitted.inspect_err(|_| house.service.metrics().refused(Transport::Http))
}

/// Refuses callers who may not do this.
fn access(house: &House, headers: &HeaderMap, needed: Access) -> Result<(), Problem> {
    match guest::granted(house, headers) {
        granted if granted >= needed => Ok(()),
        granted => Err(guard::refusal(&house.settings.tokens, headers, granted)),
    }
}

/// Reads what a body asks for.
fn understand<'a>(house: &House, body: &'a [u8]) -> Result<Request<'a>, Problem> {
    let request = Request::read(body).map_err(|(field, error)| Problem::new(StatusCode::BAD_REQUEST, field, error));
    request.inspect_err(|_| house.service.metrics().refused(Transport::Http))
}
