//! gRPC: Envoy's rate limit service, Kuadrant's, health and reflection.
//!
//! The path of a call: `guard` rejects what is not gRPC and callers without a valid token, `call` reads the message,
//! `request` turns each descriptor into an action, `ratelimit` decides, and `status` writes the response. `refund` handles
//! negative hits, and `kuadrant` reservations. `proto` has the messages.

mod call;
mod guard;
mod health;
mod kuadrant;
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
    let calls = axum::Router::new()
        .route(call::METHOD, any(call::should_rate_limit))
        .route(&kuadrant_method("CheckRateLimit"), any(call::check_rate_limit))
        .route(&kuadrant_method("Report"), any(call::report))
        .route(&kuadrant_method("Reserve"), any(call::reserve))
        .route(&kuadrant_method("Commit"), any(call::commit))
        .with_state(Arc::new(context.clone()));
    let router = Routes::new(health)
        .add_service(reflection.expect("the descriptors are valid").max_decoding_message_size(max_message))
        .add_service(earlier.expect("the descriptors are valid").max_decoding_message_size(max_message))
        .into_axum_router()
        .merge(calls);
    guard::only_grpc(router)
}

fn kuadrant_method(name: &str) -> String {
    format!("/{}/{name}", proto::KUADRANT_NAME)
}

/// Server reflection: the descriptors of the services, for tools such as grpcurl.
fn reflection() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
}
