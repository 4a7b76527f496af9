//! What this node decides by units that it has leased from the store.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::KeysAre;
use crate::service::KeyLabel;

/// Decisions of this node under policies with leases, and its leases.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct LeaseState {
    /// Requests that a lease admitted, since the start of the service.
    pub admitted: u64,
    /// Requests that a remembered denial denied.
    pub denied: u64,
    /// Requests that the store decided.
    pub asked: u64,
    /// Leases that this node holds now.
    pub open: u64,
    /// Units that are left of them.
    pub left: u64,
    /// Keys that this node remembers now.
    pub remembered: u64,
    /// The keys for which this node has decided most requests by itself, those with the most first. At most a hundred.
    pub keys: Vec<KeyLease>,
}

/// The lease of this node for one key.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct KeyLease {
    /// The policy.
    pub policy: String,
    /// How the key is shown.
    pub keys: KeysAre,
    /// The key.
    #[serde(flatten)]
    pub label: KeyLabel,
    /// Units of the lease; 0 if this node holds none now.
    pub units: u64,
    /// Units that are left of it.
    pub left: u64,
    /// Time until this node admits nothing more from it; null without a lease.
    pub ends_in_ms: Option<u64>,
    /// Requests that leases admitted since this node remembers the key.
    pub admitted: u64,
    /// Requests that remembered denials denied since then.
    pub denied: u64,
    /// Time for which this node repeats the last denial of the store; null if it repeats none.
    pub denies_for_ms: Option<u64>,
}
