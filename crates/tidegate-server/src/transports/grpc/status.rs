//! A decision as Envoy reads it.

use std::time::Duration;

use envoy_types::pb::{
    envoy::service::ratelimit::v3::rate_limit_response::{
        Code, DescriptorStatus, RateLimit,
        rate_limit::Unit::{self, Day, Hour, Minute, Month, Second, Week, Year},
    },
    google,
};
use tidegate::Reason;
use tidegate_tower::ceil_seconds;

use crate::service::Answer;

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

/// How long a unit is; `None` for an unknown one.
pub(super) fn window_of(unit: Unit) -> Option<Duration> {
    UNITS.iter().find(|(known, _)| *known == unit).map(|(_, window)| *window)
}

/// The side of a decision that one descriptor sees.
///
/// A store that fails where the policy says closed is `OVER_LIMIT` and no error: an error leaves it to Envoy, which lets the
/// request through unless its `failure_mode_deny` is set, and the policy has said what it wants.
///
/// A banned key is `OVER_LIMIT` until the ban ends. If the ban has no end, there is no `duration_until_reset`.
pub(super) fn of(answer: &Answer<'_>) -> DescriptorStatus {
    let decision = &answer.decision;
    let over = !decision.is_allowed();
    let wait = match decision.reason() {
        Reason::Banned => decision.retry_after(),
        _ => Some(decision.retry_after().filter(|_| over).unwrap_or(decision.reset_after())),
    };
    filled(answer, if over { Code::OverLimit } else { Code::Ok }, wait)
}

/// The same after something was given back, which is never denied.
pub(super) fn given_back(answer: &Answer<'_>) -> DescriptorStatus {
    filled(answer, Code::Ok, Some(answer.decision.reset_after()))
}

fn filled(answer: &Answer<'_>, code: Code, wait: Option<Duration>) -> DescriptorStatus {
    let (policy, limit) = (answer.ruling.policy(), answer.decision.limit());
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
        quota: None,
    }
}

/// Where no rule is.
pub(super) fn free() -> DescriptorStatus {
    DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() }
}

/// Where a rule says that there is no limit.
pub(super) fn unlimited() -> DescriptorStatus {
    DescriptorStatus { limit_remaining: u32::MAX, ..free() }
}

/// Where nothing is ever let through.
pub(super) fn denied(limit: Option<(Unit, Duration)>) -> DescriptorStatus {
    let (unit, window) = limit.unwrap_or((Unit::Unknown, Duration::ZERO));
    DescriptorStatus {
        code: Code::OverLimit.into(),
        current_limit: Some(RateLimit { unit: unit.into(), ..RateLimit::default() }),
        duration_until_reset: limit.map(|_| whole_seconds(window)),
        ..DescriptorStatus::default()
    }
}

/// Whole seconds, rounded up: Envoy reads nothing else of a duration, and would cut the rest off.
fn whole_seconds(wait: Duration) -> google::protobuf::Duration {
    google::protobuf::Duration { seconds: ceil_seconds(wait).try_into().unwrap_or(i64::MAX), nanos: 0 }
}

fn saturated(units: u64) -> u32 {
    units.try_into().unwrap_or(u32::MAX)
}
