//! A call of a rate limit service.
//!
//! The servers that tonic generates read the message first. This checks the token before it reads the message.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use prost::Message;
use tonic::{Code, Status, body::Body, server::Grpc};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::{guard, kuadrant, ratelimit};
use crate::{
    auth::{Access, WrongToken},
    context::Context,
    transports::http::bearer,
};

/// The path of Envoy's only method.
pub(super) const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Maximum size of a message in bytes: the maximum number of descriptors, each with all the headers that Envoy accepts (60 KB
/// by default). It is not configurable, because Envoy admits a request whose message is refused here.
const MAX_MESSAGE: usize = 4 << 20;

/// Answers a call of Envoy.
pub(super) async fn should_rate_limit(State(context): State<Arc<Context>>, request: Request) -> Response<Body> {
    answer(&context, request, |message| ratelimit::should_rate_limit(&context, message)).await
}

/// Answers a check of Kuadrant.
pub(super) async fn check_rate_limit(State(context): State<Arc<Context>>, request: Request) -> Response<Body> {
    answer(&context, request, |message| kuadrant::check_rate_limit(&context, message)).await
}

/// Answers a report of Kuadrant.
pub(super) async fn report(State(context): State<Arc<Context>>, request: Request) -> Response<Body> {
    answer(&context, request, |message| kuadrant::report(&context, message)).await
}

/// Answers a reserve of Kuadrant.
pub(super) async fn reserve(State(context): State<Arc<Context>>, request: Request) -> Response<Body> {
    answer(&context, request, |message| kuadrant::reserve(&context, message)).await
}

/// Answers a commit of Kuadrant.
pub(super) async fn commit(State(context): State<Arc<Context>>, request: Request) -> Response<Body> {
    answer(&context, request, |message| kuadrant::commit(&context, message)).await
}

/// Answers a call, or ends it with `DEADLINE_EXCEEDED` when its message does not arrive in time.
async fn answer<Q, A, F>(
    context: &Context,
    request: Request,
    decide: impl FnMut(tonic::Request<Q>) -> F,
) -> Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + 'static,
    F: Future<Output = Result<tonic::Response<A>, Status>>,
{
    let has_token = bearer(request.headers()).is_some();
    let timeout = context.settings.bounds.header_timeout;
    let mut response = match tokio::time::timeout(timeout, read_and_decide(context, request, decide)).await {
        Ok(response) => response,
        Err(_) => Status::deadline_exceeded("the message did not arrive in time").into_http(),
    };
    let status = Status::from_header_map(response.headers());
    // A caller whose token is known is never unauthenticated.
    if has_token && status.is_some_and(|status| status.code() == Code::Unauthenticated) {
        response.extensions_mut().insert(WrongToken);
    }
    response
}

async fn read_and_decide<Q, A, F>(
    context: &Context,
    request: Request,
    decide: impl FnMut(tonic::Request<Q>) -> F,
) -> Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + 'static,
    F: Future<Output = Result<tonic::Response<A>, Status>>,
{
    // Before the message is read, so that an unknown caller cannot make the service allocate memory for it.
    if let Err(status) = guard::authorize(&context.settings.tokens, request.headers(), Access::Usage) {
        return status.into_http();
    }
    let mut grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(MAX_MESSAGE);
    grpc.unary(service_fn(decide), request).await
}
