//! gRPC: Envoy's rate limit service, health and reflection.
//!
//! The path of a call: `guard` rejects what is not gRPC and callers without a valid token, `server` reads the message,
//! `request` turns each descriptor into an action, `ratelimit` decides, and `status` writes the response. `refund` handles
//! negative hits. `proto` has the messages.

mod guard;
mod health;
mod proto;
mod ratelimit;
mod reflection;
mod refund;
mod request;
mod server;
mod status;

use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

use crate::context::Context;
use ratelimit::RateLimits;

/// Returns the router of all gRPC services.
pub(crate) fn router(context: &Context) -> axum::Router {
    let bounds = context.settings.bounds;
    let limits = server::RateLimitServer::new(RateLimits::new(context));
    // Only the rate limit service has a timeout: watching health and using reflection may take long.
    let limits = guard::with_timeout(Routes::new(limits).into_axum_router(), bounds.header_timeout);
    let health = HealthServer::new(health::Health::new(context.stop.clone())).max_decoding_message_size(bounds.body);
    let router = Routes::from(limits)
        .add_service(health)
        .add_service(reflection::v1().max_decoding_message_size(bounds.body))
        .add_service(reflection::v1alpha().max_decoding_message_size(bounds.body))
        .into_axum_router();
    guard::only_grpc(router)
}
