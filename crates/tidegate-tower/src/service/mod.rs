//! [`RateLimit`]: a service behind a limit. In memory it decides at once ([`memory`]), in Redis it waits for the answer.

mod memory;
#[cfg(feature = "redis")]
mod redis;

use std::sync::Arc;

pub use memory::ResponseFuture;
use tidegate::Limiter;

use crate::gate::Gate;

/// A service behind a limit; made by a [`RateLimitLayer`](crate::RateLimitLayer).
///
/// It is as ready as the service behind it, and a denied request costs that service nothing.
#[derive(Debug, Clone)]
pub struct RateLimit<I, S = Arc<Limiter>> {
    pub(crate) inner: I,
    pub(crate) shared: Arc<Shared<S>>,
}

/// What all services of a layer have in common. One pointer to it: frameworks clone a service for every request, and
/// threads that count references to one thing wait for each other.
#[derive(Debug, Clone)]
pub(crate) struct Shared<S> {
    pub(crate) gate: Gate,
    pub(crate) store: S,
}
