//! What is turned away before it is read: what is not gRPC, who shows no token, what takes too long to arrive.

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

/// Turns away what is not gRPC, and what a web page sends: none drives a service on loopback, nor one that the page's own name
/// was made to point at. Browsers say where a page comes from, and without TLS they speak no HTTP/2.
pub(super) fn only_grpc(router: Router) -> Router {
    router.layer(from_fn(|request: Request, next: Next| async move {
        match objection(&request) {
            Some(objection) => objection.into_response(),
            None => next.run(request).await,
        }
    }))
}

fn objection(request: &Request) -> Option<(StatusCode, &'static str)> {
    let headers = request.headers();
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    if headers.contains_key(header::ORIGIN) {
        Some((StatusCode::FORBIDDEN, "web pages may not ask this service\n"))
    } else if request.version() != Version::HTTP_2 {
        Some((StatusCode::HTTP_VERSION_NOT_SUPPORTED, "gRPC only: it is spoken over HTTP/2\n"))
    } else if !kind.starts_with(b"application/grpc") {
        Some((StatusCode::UNSUPPORTED_MEDIA_TYPE, "gRPC only: the content-type is application/grpc\n"))
    } else {
        None
    }
}

/// Gives up on a call whose message does not arrive.
pub(super) fn in_time(router: Router, patience: Duration) -> Router {
    router.layer(from_fn(move |request: Request, next: Next| async move {
        match tokio::time::timeout(patience, next.run(request)).await {
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

/// Whether tokens are configured and a caller sent a wrong one.
pub(super) fn shows_wrong_token(tokens: &Tokens, headers: &HeaderMap) -> bool {
    tokens.are_configured() && bearer(headers).is_some_and(|shown| !tokens.contains(shown))
}

/// Whether a caller may do what needs `wanted`.
pub(super) fn admit(tokens: &Tokens, headers: &HeaderMap, wanted: Access) -> Result<(), Status> {
    let shown = bearer(headers);
    if tokens.grant(shown) >= wanted {
        return Ok(());
    }
    Err(match shown {
        Some(token) if tokens.contains(token) => {
            Status::permission_denied("giving hits back needs the admin token in `authorization: Bearer …`")
        }
        Some(_) => Status::unauthenticated("the token in `authorization: Bearer …` is not known here"),
        None => Status::unauthenticated("a token is needed: send `authorization: Bearer …`"),
    })
}
