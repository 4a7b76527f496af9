//! [`DecisionBody`]: a decision with the field names of HTTP and RESP. Waits are rounded up only here.

use std::time::Duration;

use serde::Serialize;
use tidegate::{Decision, Limit, Policy, external_store::DecisionFields};
use utoipa::ToSchema;

use crate::service::{PolicyDecision, PolicyDecisions};

/// A decision.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct DecisionBody {
    /// Whether the request is allowed.
    pub(crate) allowed: bool,
    /// The reason: `allowed`, `limited`, `impossible`, `store_unavailable`, `shadow` or `banned`.
    #[schema(value_type = ReasonName)]
    pub(crate) reason: &'static str,
    /// The policy that decided; null if the caller supplied the limits.
    pub(crate) policy: Option<String>,
    /// The limit that decided, or the one with the fewest remaining units.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String, example = "60/1m")]
    pub(crate) limit: Limit,
    /// Units in use under this limit.
    pub(crate) used: u64,
    /// Remaining units.
    pub(crate) remaining: u64,
    /// Time until the request would fit, or until the ban ends; null if waiting does not help or is not needed.
    pub(crate) retry_after_ms: Option<u64>,
    /// Time until no units are in use.
    pub(crate) reset_after_ms: u64,
    /// Time of the charge, in microseconds since the epoch; null if nothing was charged.
    pub(crate) charged_at_us: Option<u64>,
    /// Whether the decision was made without the store.
    pub(crate) degraded: bool,
    /// Whether this service decided by units that it has leased from the store. Then `remaining` is what is left of them.
    pub(crate) leased: bool,
    /// All fields of the decision in microseconds, for RESP.
    #[serde(skip)]
    #[schema(ignore)]
    pub(crate) exact: DecisionFields,
    /// The decision of each check, if there were several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    pub(crate) checks: Option<Vec<DecisionBody>>,
}

/// The reason of a decision.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum ReasonName {
    Allowed,
    Limited,
    Impossible,
    StoreUnavailable,
    Shadow,
    Banned,
}

impl DecisionBody {
    pub(super) fn new(decision: &Decision, policy: &Policy) -> Self {
        Self {
            allowed: decision.is_allowed(),
            reason: decision.reason().as_str(),
            policy: policy.name().map(str::to_owned),
            limit: decision.limit(),
            used: decision.used(),
            remaining: decision.remaining(),
            retry_after_ms: decision.retry_after().map(millis),
            reset_after_ms: millis(decision.reset_after()),
            charged_at_us: decision.charged_at().map(tidegate::Timestamp::as_micros),
            degraded: decision.is_degraded(),
            leased: decision.is_leased(),
            exact: DecisionFields::from(decision),
            checks: None,
        }
    }
}

impl From<&PolicyDecision<'_>> for DecisionBody {
    fn from(one: &PolicyDecision<'_>) -> Self {
        Self::new(&one.decision, &one.policy)
    }
}

impl From<&PolicyDecisions<'_>> for DecisionBody {
    fn from(all: &PolicyDecisions<'_>) -> Self {
        let checks: Vec<Self> = all.parts.iter().map(Self::from).collect();
        Self {
            charged_at_us: checks.iter().filter_map(|check| check.charged_at_us).max(),
            checks: Some(checks),
            ..Self::new(&all.overall, &all.parts[all.overall.part()].policy)
        }
    }
}

/// Returns milliseconds, rounded up.
#[inline]
pub(crate) fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

fn as_text<S: serde::Serializer>(limit: &Limit, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(limit)
}
