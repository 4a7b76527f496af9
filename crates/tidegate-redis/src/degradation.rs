//! [`Degradation`]: a degraded state of a store, with its cause and its cure.

use std::time::Duration;

/// A state in which requests are answered without Redis, or with less certainty than was asked for.
///
/// A state begins with the first request that is affected and ends once requests are answered normally again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Degradation {
    /// Short name of the cause, for metrics: a [`Error::name`](crate::Error::name), or `may_evict`.
    pub cause: &'static str,
    /// The server that is affected.
    pub node: String,
    /// What happened, in one sentence.
    pub detail: String,
    /// What an operator can do about it, in one sentence.
    pub cure: &'static str,
    /// How long the state has lasted.
    pub lasted: Duration,
}
