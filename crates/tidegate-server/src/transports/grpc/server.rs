//! [`RateLimitServer`]: Envoy's rate limit service as something that answers HTTP, with messages of our own reading.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::SERVICE_NAME;
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

use super::ratelimit::RateLimits;
use crate::auth::WrongToken;

/// The only method.
const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The most bytes in a message: the most descriptors there can be, each with all the headers that Envoy takes (60 KB, unless
/// it is told otherwise). It is no matter of configuration: Envoy lets through what is refused here.
const MAX_MESSAGE: usize = 4 << 20;

/// The service of that name.
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
        Box::pin(async move { Ok(answer(&limits, request).await) })
    }
}

async fn answer(limits: &RateLimits, request: Request<Body>) -> Response<Body> {
    if request.uri().path() != METHOD {
        return Status::unimplemented("").into_http();
    }
    // Before the message is read: whom we don't know gets no memory for it.
    let shows_wrong_token = limits.shows_wrong_token(request.headers());
    if let Err(status) = limits.admit(request.headers()) {
        return marked(status.into_http(), shows_wrong_token);
    }
    let decide = service_fn(|message| limits.should_rate_limit(message));
    let mut grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(MAX_MESSAGE);
    let answer = grpc.unary(decide, request).await;
    marked(answer, shows_wrong_token)
}

/// Marks the answer to a caller that was refused because of a wrong token.
fn marked(mut answer: Response<Body>, shows_wrong_token: bool) -> Response<Body> {
    let is_refused = || Status::from_header_map(answer.headers()).is_some_and(|s| s.code() == Code::Unauthenticated);
    if shows_wrong_token && is_refused() {
        answer.extensions_mut().insert(WrongToken);
    }
    answer
}
