//! Converts decisions into descriptor statuses.

use std::time::Duration;

use tidegate::Reason;
use tidegate_tower::ceil_seconds;

use super::proto::{
    Code, DescriptorStatus, RateLimit,
    Unit::{self, Day, Hour, Minute, Month, Second, Week, Year},
};
use crate::service::PolicyDecision;

/// Envoy's units and their lengths.
const UNITS: [(Unit, Duration); 7] = [
    (Second, Duration::from_secs(1)),
    (Minute, Duration::from_secs(60)),
    (Hour, Duration::from_secs(3_600)),
    (Day, Duration::from_secs(86_400)),
    (Week, Duration::from_secs(7 * 86_400)),
    (Month, Duration::from_secs(30 * 86_400)),
    (Year, Duration::from_secs(365 * 86_400)),
];

/// Returns the length of a unit, or `None` if the unit is unknown.
pub(super) fn window_of(unit: Unit) -> Option<Duration> {
    UNITS.iter().find(|(known, _)| *known == unit).map(|(_, window)| *window)
}

/// Returns the status of a descriptor that was decided.
///
/// A store failure under `on_store_failure = "closed"` is `OVER_LIMIT` and not an error: Envoy admits a request after an error
/// unless its `failure_mode_deny` is set, and the policy wants it denied.
///
/// A banned key is `OVER_LIMIT` until the ban ends. If the ban has no end, there is no `duration_until_reset`.
pub(super) fn decided(answer: &PolicyDecision<'_>) -> DescriptorStatus {
    let decision = &answer.decision;
    let over = !decision.is_allowed();
    let wait = match decision.reason() {
        Reason::Banned => decision.retry_after(),
        _ => Some(decision.retry_after().filter(|_| over).unwrap_or(decision.reset_after())),
    };
    status(answer, if over { Code::OverLimit } else { Code::Ok }, wait)
}

/// Returns the status of a descriptor after a refund, which is never denied.
pub(super) fn refunded(answer: &PolicyDecision<'_>) -> DescriptorStatus {
    status(answer, Code::Ok, Some(answer.decision.reset_after()))
}

fn status(answer: &PolicyDecision<'_>, code: Code, wait: Option<Duration>) -> DescriptorStatus {
    let (policy, limit) = (&answer.policy, answer.decision.limit());
    let unit = UNITS.iter().find(|(_, window)| *window == limit.window()).map_or(Unit::Unknown, |(unit, _)| *unit);
    let name = match unit {
        Unit::Unknown => limit.to_string(),
        _ => policy.name().unwrap_or_default().to_owned(),
    };
    let limit = RateLimit { name, requests_per_unit: saturated(answer.decision.capacity()), unit: unit.into() };
    DescriptorStatus {
        code: code.into(),
        current_limit: Some(limit),
        limit_remaining: saturated(answer.decision.remaining()),
        duration_until_reset: wait.map(whole_seconds),
        ..DescriptorStatus::default()
    }
}

/// Returns the status of a descriptor that no rule matches.
pub(super) fn unmatched() -> DescriptorStatus {
    DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() }
}

/// Returns the status of a descriptor that a rule declares unlimited.
pub(super) fn unlimited() -> DescriptorStatus {
    DescriptorStatus { limit_remaining: u32::MAX, ..unmatched() }
}

/// Returns the status of a descriptor that a rule or a limit of zero denies.
pub(super) fn denied(unit: Option<Unit>) -> DescriptorStatus {
    let unit = unit.unwrap_or(Unit::Unknown);
    DescriptorStatus {
        code: Code::OverLimit.into(),
        current_limit: Some(RateLimit { unit: unit.into(), ..RateLimit::default() }),
        duration_until_reset: window_of(unit).map(whole_seconds),
        ..DescriptorStatus::default()
    }
}

/// Rounds up to whole seconds, because Envoy ignores fractions of a second.
fn whole_seconds(wait: Duration) -> prost_types::Duration {
    prost_types::Duration { seconds: ceil_seconds(wait).try_into().unwrap_or(i64::MAX), nanos: 0 }
}

fn saturated(units: u64) -> u32 {
    units.try_into().unwrap_or(u32::MAX)
}
