//! [`Body`]: a decision under the names that HTTP and RESP give its fields. Waits are rounded up, once, here.

use std::time::Duration;

use serde::Serialize;
use tidegate::Limit;
use utoipa::ToSchema;

use crate::service::{Answer, Answers};

/// A decision.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Body {
    /// Whether the request may go ahead.
    pub(crate) allowed: bool,
    /// Why: `allowed`, `limited`, `impossible`, `store_unavailable`, `shadow` or `banned`.
    #[schema(value_type = ReasonName)]
    pub(crate) reason: &'static str,
    /// The policy that bound; null where the caller brought the limits.
    pub(crate) policy: Option<String>,
    /// The limit that bound, or the tightest.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String, example = "60/1m")]
    pub(crate) limit: Limit,
    /// Units in use under it.
    pub(crate) used: u64,
    /// Units left.
    pub(crate) remaining: u64,
    /// How long to wait until it would fit, or until the ban ends; null where there is nothing to wait for.
    pub(crate) retry_after_ms: Option<u64>,
    /// How long until nothing is in use.
    pub(crate) reset_after_ms: u64,
    /// When it was charged, in microseconds since the epoch; null if it was not.
    pub(crate) charged_at_us: Option<u64>,
    /// Whether the answer is less than the store would have given.
    pub(crate) degraded: bool,
    /// Of each check, where there were several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    pub(crate) checks: Option<Vec<Body>>,
}

/// Why a decision is what it is.
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

impl From<&Answer<'_>> for Body {
    fn from(answer: &Answer<'_>) -> Self {
        let decision = &answer.decision;
        Self {
            allowed: decision.is_allowed(),
            reason: decision.reason().as_str(),
            policy: answer.ruling.policy().name().map(str::to_owned),
            limit: decision.limit(),
            used: decision.used(),
            remaining: decision.remaining(),
            retry_after_ms: decision.retry_after().map(millis),
            reset_after_ms: millis(decision.reset_after()),
            charged_at_us: decision.charged_at().map(tidegate::Timestamp::as_micros),
            degraded: decision.is_degraded(),
            checks: None,
        }
    }
}

impl From<&Answers<'_>> for Body {
    fn from(answers: &Answers<'_>) -> Self {
        let parts: Vec<Self> = answers.parts.iter().map(Self::from).collect();
        let overall = &answers.overall;
        Self {
            allowed: overall.is_allowed(),
            reason: overall.reason().as_str(),
            policy: parts[overall.part()].policy.clone(),
            limit: overall.limit(),
            used: overall.used(),
            remaining: overall.remaining(),
            retry_after_ms: overall.retry_after().map(millis),
            reset_after_ms: millis(overall.reset_after()),
            charged_at_us: parts.iter().filter_map(|part| part.charged_at_us).max(),
            degraded: overall.is_degraded(),
            checks: Some(parts),
        }
    }
}

/// Milliseconds, rounded up.
#[inline]
pub(crate) fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

fn as_text<S: serde::Serializer>(limit: &Limit, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(limit)
}
