//! Checks before a message is read: the protocol, the token and the time that the message takes to arrive.

use std::time::Duration;

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, StatusCode, Version, header},
    middleware::{Next, from_fn},
    response::{IntoResponse as _, Response},
};
use tonic::{Status, body::Body};

use crate::{auth::Access, config::Tokens};

/// Rejects requests that are not gRPC, and requests from web pages.
///
/// A web page must not reach a service on loopback, not even when the page's own name resolves to this address. Browsers send
/// the page's origin, and they use HTTP/2 only with TLS.
pub(super) fn only_grpc(router: Router) -> Router {
    router.layer(from_fn(|request: Request, next: Next| async move {
        match rejection(&request) {
            Some(rejection) => rejection.into_response(),
            None => next.run(request).await,
        }
    }))
}

fn rejection(request: &Request) -> Option<(StatusCode, &'static str)> {
    let headers = request.headers();
    let content_type = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    if headers.contains_key(header::ORIGIN) {
        Some((StatusCode::FORBIDDEN, "web pages may not call this service\n"))
    } else if request.version() != Version::HTTP_2 {
        Some((StatusCode::HTTP_VERSION_NOT_SUPPORTED, "gRPC only: use HTTP/2\n"))
    } else if !content_type.starts_with(b"application/grpc") {
        Some((StatusCode::UNSUPPORTED_MEDIA_TYPE, "gRPC only: use the content-type application/grpc\n"))
    } else {
        None
    }
}

/// Ends a call with `DEADLINE_EXCEEDED` when its message does not arrive in time.
pub(super) fn with_timeout(router: Router, timeout: Duration) -> Router {
    router.layer(from_fn(move |request: Request, next: Next| async move {
        match tokio::time::timeout(timeout, next.run(request)).await {
            Ok(response) => response,
            Err(_) => late(),
        }
    }))
}

fn late() -> Response {
    Status::deadline_exceeded("the message did not arrive in time").into_http::<Body>().into_response()
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(header::AUTHORIZATION).and_then(|header| Tokens::bearer(header.as_bytes()))
}

/// Returns whether tokens are configured and the caller sent a wrong one.
pub(super) fn has_wrong_token(tokens: &Tokens, headers: &HeaderMap) -> bool {
    tokens.are_configured() && bearer(headers).is_some_and(|token| !tokens.contains(token))
}

/// Checks that the caller's token grants the access that is required.
pub(super) fn authorize(tokens: &Tokens, headers: &HeaderMap, required: Access) -> Result<(), Status> {
    let token = bearer(headers);
    if tokens.grant(token) >= required {
        return Ok(());
    }
    Err(match token {
        Some(token) if tokens.contains(token) => {
            Status::permission_denied("negative hits need the admin token in `authorization: Bearer …`")
        }
        Some(_) => Status::unauthenticated("the token in `authorization: Bearer …` is unknown"),
        None => Status::unauthenticated("a token is required: send `authorization: Bearer …`"),
    })
}
