//! gRPC: Envoy's rate limit service, health and reflection.
//!
//! A call's way: `guard` lets it in, `server` receives its `message`, `request` reads what each descriptor asks for, `ratelimit` decides, `status` writes the
//! answer. `give_back` is what negative hits come to.

mod give_back;
mod guard;
mod health;
mod message;
mod ratelimit;
mod reflection;
mod request;
mod server;
mod status;

use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

use crate::context::Context;
use ratelimit::RateLimits;

/// The services, to be spoken over HTTP/2.
pub(crate) fn router(context: &Context) -> axum::Router {
    let bounds = context.settings.bounds;
    let limits = server::RateLimitServer::new(RateLimits::new(context));
    // Only here: who watches the health of the service, or requests what it looks like, may take long.
    let limits = guard::in_time(Routes::new(limits).into_axum_router(), bounds.header_timeout);
    let health = HealthServer::new(health::Health::new(context.stop.clone())).max_decoding_message_size(bounds.body);
    let router = Routes::from(limits)
        .add_service(health)
        .add_service(reflection::v1().max_decoding_message_size(bounds.body))
        .add_service(reflection::v1alpha().max_decoding_message_size(bounds.body))
        .into_axum_router();
    guard::only_grpc(router)
}
