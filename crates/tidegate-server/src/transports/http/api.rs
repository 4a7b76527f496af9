//! The JSON of the admin API. The service writes these types, and `tidegate` reads them.

use serde::{Deserialize, Serialize};
use tidegate::{ActiveOverride, OpenReservation, OverrideRule};
use utoipa::ToSchema;

use crate::service::KeyLabel;

/// The result of a refund.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct RefundResponse {
    /// Whether there were units to refund.
    pub returned: bool,
    /// Remaining units after the refund; the minimum over all limits.
    pub remaining: u64,
    /// Time until no units are in use.
    pub reset_after_ms: u64,
    /// The result of each refund, if there were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    pub checks: Option<Vec<RefundResponse>>,
}

/// The result of a reset.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct ResetResponse {
    /// Whether the key had a state.
    pub reset: bool,
}

/// The state of a key.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct KeyState {
    /// The policy.
    pub policy: String,
    /// Whether the key has a state; if not, no units are in use.
    pub found: bool,
    /// The key as it is shown.
    pub label: String,
    /// Time of the last charge, in microseconds since the epoch.
    pub newest_charge_us: Option<u64>,
    /// Time of this response, in microseconds since the epoch.
    pub now_us: u64,
    /// The algorithm.
    #[schema(example = "sliding_log")]
    pub algorithm: String,
    /// `enforce` or `shadow`.
    pub mode: String,
    /// The active override of the key; null if there is none.
    pub r#override: Option<OverrideState>,
    /// The units in use under each limit.
    pub limits: Vec<LimitState>,
    /// The open holds and leases, in the order of their ends; at most the first thousand.
    #[serde(default)]
    pub reservations: Vec<ReservationState>,
}

/// An open hold or lease.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct ReservationState {
    /// The kind.
    pub kind: ReservationKind,
    /// The units that are set aside.
    pub units: u64,
    /// Time of the grant, in microseconds since the epoch.
    pub granted_at_us: u64,
    /// Time at which it ends by itself, in microseconds since the epoch.
    pub until_us: u64,
    /// What happens to the units at the end: `released` or `spent`.
    #[schema(example = "released")]
    pub expires: String,
}

/// The kind of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReservationKind {
    /// Units of a caller whose actual cost is not known yet.
    Hold,
    /// Units that a node may admit by itself.
    Lease,
}

/// The units in use under one limit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct LimitState {
    /// The limit.
    #[schema(example = "60/1m")]
    pub limit: String,
    /// Maximum number of units that can be in use at once.
    pub capacity: u64,
    /// The window, in microseconds; 0 for a limit on the units in open holds.
    pub window_us: u64,
    /// Number of buckets of the window; 1 for algorithms without buckets.
    pub buckets: u64,
    /// Units in use.
    pub used: u64,
    /// Remaining units.
    pub remaining: u64,
    /// Time until fewer units are in use; null if none are.
    pub next_free_after_ms: Option<u64>,
    /// Time until no units are in use.
    pub reset_after_ms: u64,
    /// The charges, oldest first; at most the newest thousand.
    pub entries: Vec<ChargeEntry>,
    /// Number of older charges that are not listed.
    pub unlisted: usize,
}

/// Units charged between two instants.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct ChargeEntry {
    /// The first instant.
    pub first_us: u64,
    /// The last instant.
    pub last_us: u64,
    /// Number of units.
    pub units: u64,
}

/// An active override.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct OverrideState {
    /// The kind.
    pub kind: OverrideKind,
    /// The limits, if the kind is `limits`.
    pub limits: Vec<String>,
    /// The algorithm of these limits; null otherwise.
    pub algorithm: Option<String>,
    /// Begin of the override, in milliseconds since the epoch.
    pub since_ms: u64,
    /// End of the override; null if it is permanent.
    pub until_ms: Option<u64>,
    /// The reason for the override; may be empty.
    pub note: String,
}

/// The kind of an override.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OverrideKind {
    /// Other limits.
    Limits,
    /// All requests are denied.
    Ban,
    /// All requests are allowed, and nothing is counted.
    Exempt,
}

/// The result of setting an override.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct SetOverrideResponse {
    /// The override.
    pub r#override: OverrideState,
    /// Whether it replaces another one.
    pub replaced: bool,
}

/// The result of removing an override.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct RemoveOverrideResponse {
    /// Whether there was an override.
    pub lifted: bool,
}

/// All active overrides.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct OverrideList {
    /// The overrides.
    pub overrides: Vec<KeyOverride>,
}

/// The override of one key.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[non_exhaustive]
pub struct KeyOverride {
    /// The policy.
    pub policy: String,
    /// The key.
    #[serde(flatten)]
    pub label: KeyLabel,
    /// The override.
    pub r#override: OverrideState,
}

impl From<&OpenReservation> for ReservationState {
    fn from(open: &OpenReservation) -> Self {
        Self {
            kind: if open.is_lease { ReservationKind::Lease } else { ReservationKind::Hold },
            units: open.units,
            granted_at_us: open.granted_at.as_micros(),
            until_us: open.until.as_micros(),
            expires: open.at_end.to_string(),
        }
    }
}

impl From<&ActiveOverride> for OverrideState {
    fn from(active: &ActiveOverride) -> Self {
        let ActiveOverride { r#override, since, .. } = active;
        let (kind, policy) = match r#override.rule() {
            OverrideRule::Limits(policy) => (OverrideKind::Limits, Some(policy)),
            OverrideRule::Ban => (OverrideKind::Ban, None),
            OverrideRule::Exempt => (OverrideKind::Exempt, None),
        };
        Self {
            kind,
            limits: policy.map_or_else(Vec::new, |policy| policy.limits().iter().map(ToString::to_string).collect()),
            algorithm: policy.map(|policy| policy.algorithm().to_string()),
            since_ms: since.as_micros() / 1_000,
            until_ms: r#override.end().map(|end| end.as_micros().div_ceil(1_000)),
            note: r#override.note().to_owned(),
        }
    }
}
