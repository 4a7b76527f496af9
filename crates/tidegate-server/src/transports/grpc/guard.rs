//! What is turned away before it is read: what is not gRPC, who shows no token, what takes too long to arrive.

use std::time::Duration;

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, header},
    middleware::{Next, from_fn},
    response::{IntoResponse as _, Response},
};
use tonic::{
    Status,
    body::Body,
    metadata::{MetadataMap, MetadataValue},
};

use crate::{access::Access, config::Tokens};

/// Turns away what does not say that it is gRPC. A web page can send a body of that type only if it is asked for leave first,
/// and it gets none here: so none drives a service on loopback.
pub(super) fn only_grpc(router: Router) -> Router {
    router.layer(from_fn(|request: Request, next: Next| async move {
        let kind = request.headers().get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
        if kind.starts_with(b"application/grpc") {
            next.run(request).await
        } else {
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "gRPC only: the content-type is application/grpc\n").into_response()
        }
    }))
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

/// Whether a caller may do what needs `wanted`.
pub(super) fn admit(tokens: &Tokens, metadata: &MetadataMap, wanted: Access) -> Result<(), Status> {
    let header = metadata.get("authorization").map(MetadataValue::as_encoded_bytes);
    let shown = header.and_then(Tokens::bearer);
    if tokens.grant(shown) >= wanted {
        return Ok(());
    }
    Err(match shown {
        Some(token) if tokens.knows(token) => {
            Status::permission_denied("giving hits back needs the admin token in `authorization: Bearer …`")
        }
        Some(_) => Status::unauthenticated("the token in `authorization: Bearer …` is not known here"),
        None => Status::unauthenticated("a token is needed: send `authorization: Bearer …`"),
    })
}
