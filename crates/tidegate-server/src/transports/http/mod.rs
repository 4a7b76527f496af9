//! HTTP and JSON. The path of a request: `connection` reads it, `guard` and `caller` check whether it is permitted, `request` parses
//! it, `decide`, `reservations`, `admin`, `overrides` and `forward` call the service, `headers` and the shared `decision_body` write the answer.

mod admin;
pub mod api;
mod caller;
pub(crate) mod connection;
mod decide;
mod forward;
mod guard;
mod headers;
pub(crate) mod login_cookie;
pub(crate) mod openapi;
mod openapi_reservations;
mod overrides;
mod policy_text;
mod problem;
pub(crate) mod query;
mod request;
mod reservation_request;
mod reservations;
pub(crate) mod status;
mod timeout_stream;
mod unread_body;
mod wrong_token;

use std::{pin::pin, sync::Arc};

use axum::{
    Extension, Router,
    body::Bytes,
    extract::Request as HttpRequest,
    http::{HeaderMap, Method, StatusCode, Uri},
    routing::{get, post},
};
use futures_util::FutureExt as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use self::openapi::Document;
pub(crate) use self::{
    admin::{applied_policy, key_state, policy_and_key},
    caller::{Caller, bearer},
    connection::Peer,
    guard::origin,
    problem::{Problem, Refused},
    request::Request,
};
use crate::{auth::Access, context::Context};

/// Routes that another part of the server adds to the API, and their documentation.
pub(crate) struct ExtraRoutes {
    pub(crate) router: Router,
    pub(crate) document: utoipa::openapi::OpenApi,
}

/// Returns all routes.
pub(crate) fn router(context: &Context, extra: Option<ExtraRoutes>) -> Router {
    let ExtraRoutes { router, document } =
        extra.unwrap_or_else(|| ExtraRoutes { router: Router::new(), document: utoipa::openapi::OpenApi::default() });
    Router::new()
        .route("/v1/check", post(decide::check))
        .route("/v1/peek", post(decide::peek))
        .route("/v1/charge", post(decide::charge))
        .route("/v1/reserve", post(reservations::reserve))
        .route("/v1/commit", post(reservations::commit))
        .route("/v1/release", post(reservations::release))
        .route("/v1/renew", post(reservations::renew))
        .route("/v1/lease", post(reservations::lease))
        .route("/v1/settle", post(reservations::settle))
        .route("/v1/refund", post(admin::refund))
        .route("/v1/reset", post(admin::reset))
        .route("/v1/inspect", get(admin::inspect))
        .route("/v1/override", post(overrides::set))
        .route("/v1/override/lift", post(overrides::remove))
        .route("/v1/overrides", get(overrides::list))
        .route("/v1/forward", forward::routes())
        .route("/v1/policies", get(status::policies))
        .route("/healthz", get(status::healthz))
        .route("/readyz", get(status::readyz))
        .route("/metrics", get(status::metrics))
        .route("/openapi.json", get(openapi::document).layer(Extension(Arc::new(Document::new(document)))))
        // One shared state, so that a request clones one reference count.
        .with_state(Arc::new(context.clone()))
        .merge(router)
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
}

pub(crate) async fn not_found(uri: Uri) -> Problem {
    let message = format!("there is nothing at `{}`: /openapi.json lists all paths", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "", message)
}

async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    let message = format!("`{}` does not accept {method}: /openapi.json lists the methods", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "", message)
}

/// Checks whether a request is permitted, and reads its body within the bounds of size and time.
async fn body(context: &Context, needed: Access, request: HttpRequest) -> Result<Bytes, Problem> {
    admit(context, request.headers(), request.uri(), needed)?;
    read_json(context, request).await
}

/// Reads a JSON body within the bounds of size and time.
pub(crate) async fn read_json(context: &Context, request: HttpRequest) -> Result<Bytes, Problem> {
    guard::content_type(request.headers())?;
    let bounds = &context.settings.bounds;
    let mut whole = pin!(Limited::new(request.into_body(), bounds.body).collect());
    // Nearly always the whole body has arrived already, and no timer is needed.
    let read = match whole.as_mut().now_or_never() {
        Some(read) => Ok(read),
        None => tokio::time::timeout(bounds.header_timeout, whole).await,
    };
    match read {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the body has more than {} bytes: send less at once", bounds.body);
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "", message))
        }
        Ok(Err(_)) => Err(Problem::new(StatusCode::BAD_REQUEST, "", "the body could not be read to its end")),
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "", "the body took too long to arrive")),
    }
}

/// Checks the origin and the access of a request.
fn admit(context: &Context, headers: &HeaderMap, uri: &Uri, needed: Access) -> Result<(), Problem> {
    guard::origin(&context.settings, headers, uri)?;
    access(context, headers, needed)
}

/// Refuses callers without the needed access.
fn access(context: &Context, headers: &HeaderMap, needed: Access) -> Result<(), Problem> {
    match caller::access_and_login(context, headers) {
        (granted, _) if granted >= needed => Ok(()),
        (granted, _) => Err(guard::access_problem(&context.settings.tokens, headers, granted)),
    }
}
