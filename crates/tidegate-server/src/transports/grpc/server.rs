//! [`RateLimitServer`]: Envoy's rate limit service as a tower service.
//!
//! tonic's generated server reads the message first. This one checks the token before it reads, and counts calls whose message
//! cannot be read.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use tonic::{
    Code, Status,
    body::Body,
    codegen::{
        BoxFuture,
        http::{Request, Response},
    },
    server::{Grpc, NamedService},
};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

use super::{proto::SERVICE_NAME, ratelimit::RateLimits};
use crate::auth::WrongToken;

/// The path of the only method.
const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Maximum size of a message in bytes: the maximum number of descriptors, each with all the headers that Envoy accepts (60 KB
/// by default). It is not configurable, because Envoy admits a request whose message is refused here.
const MAX_MESSAGE: usize = 4 << 20;

/// Serves [`RateLimits`] over HTTP/2.
#[derive(Debug, Clone)]
pub(super) struct RateLimitServer(Arc<RateLimits>);

impl RateLimitServer {
    pub(super) fn new(limits: RateLimits) -> Self {
        Self(Arc::new(limits))
    }
}

impl NamedService for RateLimitServer {
    const NAME: &'static str = SERVICE_NAME;
}

impl Service<Request<Body>> for RateLimitServer {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let limits = Arc::clone(&self.0);
        Box::pin(async move { Ok(respond(&limits, request).await) })
    }
}

async fn respond(limits: &RateLimits, request: Request<Body>) -> Response<Body> {
    if request.uri().path() != METHOD {
        return Status::unimplemented("").into_http();
    }
    // Before the message is read, so that an unknown caller cannot make the service allocate memory for it.
    let has_wrong_token = limits.has_wrong_token(request.headers());
    if let Err(status) = limits.authorize(request.headers()) {
        return mark_wrong_token(status.into_http(), has_wrong_token);
    }
    let decide = service_fn(|message| limits.should_rate_limit(message));
    let mut grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(MAX_MESSAGE);
    let response = grpc.unary(decide, request).await;
    mark_wrong_token(response, has_wrong_token)
}

/// Marks the response to a caller that was refused because of a wrong token.
fn mark_wrong_token(mut response: Response<Body>, has_wrong_token: bool) -> Response<Body> {
    let is_refused = || Status::from_header_map(response.headers()).is_some_and(|s| s.code() == Code::Unauthenticated);
    if has_wrong_token && is_refused() {
        response.extensions_mut().insert(WrongToken);
    }
    response
}
