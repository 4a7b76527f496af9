//! HTTP and JSON.

pub(crate) mod connection;

use crate::door::House;

/// What is served where.
pub(crate) fn router(_house: &House) -> axum::Router {
    axum::Router::new()
}
