//! gRPC: Envoy's rate limit service, health and reflection.
//!
//! The path of a call: `guard` rejects what is not gRPC and callers without a valid token, `call` reads the message,
//! `request` turns each descriptor into an action, `ratelimit` decides, and `status` writes the response. `refund` handles
//! negative hits. `proto` has the messages.

mod call;
mod guard;
mod health;
mod proto;
mod ratelimit;
mod refund;
mod request;
mod status;

use std::sync::Arc;

use axum::routing::any;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::server::Builder;

use crate::context::Context;

/// Returns the router of all gRPC services.
pub(crate) fn router(context: &Context) -> axum::Router {
    let max_message = context.settings.bounds.body;
    let health = HealthServer::new(health::Health::new(context.stop.clone())).max_decoding_message_size(max_message);
    // Older tools use the reflection service under its earlier name.
    let (reflection, earlier) = (reflection().build_v1(), reflection().build_v1alpha());
    let router = Routes::new(health)
        .add_service(reflection.expect("the descriptors are valid").max_decoding_message_size(max_message))
        .add_service(earlier.expect("the descriptors are valid").max_decoding_message_size(max_message))
        .into_axum_router()
        .route(call::METHOD, any(call::answer).with_state(Arc::new(context.clone())));
    guard::only_grpc(router)
}

/// Server reflection: the descriptors of the services, for tools such as grpcurl.
fn reflection() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
}
