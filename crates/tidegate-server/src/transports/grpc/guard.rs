//! Checks before a message is read: the protocol and the token.

use axum::{
    Extension, Router,
    extract::Request,
    http::{HeaderMap, StatusCode, Version, header},
    middleware::{Next, from_fn},
    response::IntoResponse as _,
};
use tonic::Status;

use crate::{
    auth::Access,
    config::Tokens,
    transports::http::{Refused, bearer},
};

/// Rejects requests that are not gRPC, and requests from web pages.
///
/// A web page must not reach a service on loopback, not even when the page's own name resolves to this address. Browsers send
/// the page's origin, and they use HTTP/2 only with TLS.
pub(super) fn only_grpc(router: Router) -> Router {
    router.layer(from_fn(|request: Request, next: Next| async move {
        match rejection(&request) {
            Some((status, reason)) => (status, Extension(Refused), reason).into_response(),
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
