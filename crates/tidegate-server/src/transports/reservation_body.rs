//! The answers about reservations, with the field names of HTTP and RESP.

use serde::Serialize;
use tidegate::{Lease, ReservationId};
use utoipa::ToSchema;

use super::decision_body::{DecisionBody, millis};
use crate::service::{ChangedReservation, LeaseDecision, ReservedDecision};

/// The answer to a reserve.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ReservationBody {
    #[serde(flatten)]
    pub(crate) decision: DecisionBody,
    /// The id of the hold; null if the request is denied.
    pub(crate) reservation: Option<String>,
    /// Time until the hold ends by itself; null if the request is denied.
    pub(crate) ttl_ms: Option<u64>,
}

/// The answer to a commit, a release, a renew or a settle.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct SettledBody {
    #[serde(flatten)]
    pub(crate) decision: DecisionBody,
    /// Whether the hold or the lease was open. If not, nothing was changed.
    pub(crate) known: bool,
}

/// The answer to a lease.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct LeaseBody {
    #[serde(flatten)]
    pub(crate) decision: DecisionBody,
    /// The id of the lease; null if no units are granted.
    pub(crate) reservation: Option<String>,
    /// The granted units; 0 if the request is denied.
    pub(crate) granted: u64,
    /// Time until the lease ends by itself; null if no units are granted.
    pub(crate) ttl_ms: Option<u64>,
    /// Whether the earlier lease was open; null if none was to settle.
    pub(crate) settled: Option<bool>,
}

impl ReservationBody {
    pub(crate) fn new<'a, D>(reserved: &'a ReservedDecision<D>, ttl_ms: u64) -> Self
    where
        DecisionBody: From<&'a D>,
    {
        Self {
            decision: DecisionBody::from(&reserved.decided),
            reservation: reserved.id.as_ref().map(ReservationId::to_string),
            ttl_ms: reserved.id.as_ref().map(|_| ttl_ms),
        }
    }
}

impl LeaseBody {
    pub(crate) fn new(leased: &LeaseDecision<'_>, lease: &Lease) -> Self {
        // A term that is shorter than requested is never rounded up: the caller would admit requests after the end.
        let ttl_ms = leased.ttl.map_or(millis(lease.ttl), |ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        let ReservationBody { decision, reservation, ttl_ms } = ReservationBody::new(&leased.reserved, ttl_ms);
        Self { decision, reservation, granted: leased.granted, ttl_ms, settled: leased.settled }
    }
}

impl From<&ChangedReservation<'_>> for SettledBody {
    fn from(changed: &ChangedReservation<'_>) -> Self {
        let mut decision = DecisionBody::new(&changed.settled.decision, &changed.policy);
        if changed.settled.decision.part() > 0 {
            // The id names only the policy of the first request.
            decision.policy = None;
        }
        Self { decision, known: changed.settled.known }
    }
}
