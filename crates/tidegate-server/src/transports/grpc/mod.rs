//! gRPC: Envoy's rate limit service, health and reflection.

use crate::door::House;

/// The services, to be spoken over HTTP/2.
pub(crate) fn router(_house: &House) -> axum::Router {
    axum::Router::new()
}
