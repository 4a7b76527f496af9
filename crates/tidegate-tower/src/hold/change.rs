//! [`HoldEvent`]: a hold that ends before its request.

use tidegate::{Key, Policy};

/// What happened to the hold of a request that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldChange {
    /// The hold has ended: its key was reset, or the store did not answer for longer than the ttl. From now on, a limit such
    /// as `4/inflight` does not count the request.
    Lost,
    /// The request has a hold again under this policy, and its limit on open holds counts the request.
    ReservedAgain,
}

/// A change of the hold of a request, under one policy, for metrics and logs.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HoldEvent<'a> {
    /// What happened.
    pub change: HoldChange,
    /// A policy of the request.
    pub policy: &'a Policy,
    /// The key that the request is counted by under this policy.
    pub key: &'a Key<'a>,
}
