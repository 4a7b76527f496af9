//! Conversions between the numbers of the model and the types of the library.

use std::time::Duration;

use tidegate::{
    Algorithm, Buckets, Burst, Cost, Decision, Inspection, Limit, Mode, Override, OverrideRule, Policy, Reason, Refund,
    ReservationBounds, Timestamp,
};

use crate::model::{
    Micros, ModelAlgorithm, ModelDecision, ModelInspection, ModelLimit, ModelOverride, ModelOverrideKind, ModelPolicy,
    ModelRefund, ModelRequest, OverrideSummary,
};

/// Returns the timestamp of a time.
///
/// # Panics
/// If the time is negative or exceeds 64 bits.
pub fn timestamp(at: Micros) -> Timestamp {
    Timestamp::from_micros(at.try_into().expect("the time fits 64 bits"))
}

/// Returns the policy of a request, named by its number. The range of its limits is not checked, because some vectors
/// exceed it.
///
/// # Panics
/// If a number exceeds 64 bits, or a burst or the number of buckets is out of range.
pub fn policy(request: &ModelRequest) -> Policy {
    named_policy(&format!("policy-{}", request.id.0), &request.policy)
}

/// Returns a policy with a name. See [`policy`].
///
/// # Panics
/// See [`policy`].
pub fn named_policy(name: &str, model: &ModelPolicy) -> Policy {
    let number = |value: i128| u64::try_from(value).expect("the number fits 64 bits");
    let limit = |limit: &ModelLimit| Limit::from_vector(number(limit.max), number(limit.window));
    let burst = |limit: &ModelLimit| Burst::new(number(limit.capacity)).expect("the burst is in range");
    let limits = &model.limits;
    let policy = Policy::new(name, limits.iter().map(limit)).expect("the policy is valid");
    let policy = policy.with_mode(if model.shadow { Mode::Shadow } else { Mode::Enforce });
    let policy = policy.with_reservation_bounds(longest_reservations());
    let windowed: Vec<&ModelLimit> = limits.iter().filter(|limit| !limit.is_in_flight()).collect();
    let same_burst = windowed.iter().all(|limit| limit.capacity == windowed[0].capacity);
    match model.algorithm {
        ModelAlgorithm::SlidingLog => policy,
        ModelAlgorithm::SlidingCounter => policy.with_algorithm(Algorithm::SlidingCounter),
        ModelAlgorithm::SlidingBuckets(n) => {
            let buckets = Buckets::new(number(n)).expect("the number of buckets is in range");
            policy.with_algorithm(Algorithm::SlidingBuckets(buckets))
        }
        ModelAlgorithm::FixedWindow => policy.with_algorithm(Algorithm::FixedWindow),
        ModelAlgorithm::Gcra if limits.iter().all(|limit| limit.capacity == limit.max) => {
            policy.with_algorithm(Algorithm::Gcra(None))
        }
        ModelAlgorithm::Gcra if same_burst => policy.with_algorithm(Algorithm::Gcra(Some(burst(windowed[0])))),
        ModelAlgorithm::Gcra => {
            policy.with_bursts(windowed.into_iter().map(burst)).expect("there is a burst for each limit")
        }
    }
}

/// The widest bounds on reservations.
fn longest_reservations() -> ReservationBounds {
    let bounds = ReservationBounds::default().with_max_hold(Duration::from_secs(24 * 3600));
    let bounds = bounds.and_then(|bounds| bounds.with_max_lease(Duration::from_secs(60)));
    bounds.expect("the bounds are in range")
}

/// Returns the cost of a request. Its range is not checked, because some vectors exceed it.
///
/// # Panics
/// If it is negative or exceeds 64 bits.
pub fn cost(request: &ModelRequest) -> Cost {
    Cost::from_vector(request.cost.try_into().expect("the cost fits 64 bits"))
}

/// Returns a decision in the numbers of the model. `request` is the request that decided, `part` its position among
/// several.
///
/// # Panics
/// If the decision is degraded, or names a limit that the policy does not have.
pub fn decision(decision: &Decision, part: usize, request: &ModelRequest) -> ModelDecision {
    assert!(!decision.is_degraded(), "the decision is degraded: {decision:?}");
    assert!(decision.reason() != Reason::StoreUnavailable, "the store is not available: {decision:?}");
    let limit = ModelLimit {
        max: decision.limit().max().into(),
        window: micros(decision.limit().window()),
        capacity: decision.capacity().into(),
    };
    assert!(
        decision.is_overridden() || request.policy.limits.contains(&limit),
        "the policy {:?} does not have the limit of {decision:?}",
        request.policy
    );
    ModelDecision {
        reason: decision.reason(),
        part,
        limit,
        used: decision.used().into(),
        remaining: decision.remaining().into(),
        retry_after: decision.retry_after().map(micros),
        reset_after: micros(decision.reset_after()),
        charged_at: decision.charged_at().map(|at| at.as_micros().into()),
        overridden: decision.is_overridden(),
    }
}

fn micros(duration: Duration) -> Micros {
    assert_eq!(duration.subsec_nanos() % 1_000, 0, "the wait is not a whole number of microseconds");
    duration.as_micros().try_into().expect("the wait fits")
}

pub(crate) fn refund(refund: &Refund) -> ModelRefund {
    ModelRefund {
        returned: refund.is_returned(),
        remaining: refund.remaining().into(),
        reset_after: micros(refund.reset_after()),
    }
}

pub(crate) fn inspection(inspection: &Inspection) -> ModelInspection {
    ModelInspection {
        newest_charge: inspection.newest_charge.as_micros().into(),
        used: inspection.limits.iter().map(|limit| limit.used.into()).collect(),
        remaining: inspection.limits.iter().map(|limit| limit.remaining.into()).collect(),
        reset_after: inspection.limits.iter().map(|limit| micros(limit.reset_after)).collect(),
        next_free_after: inspection.limits.iter().map(|limit| micros(limit.next_free_after)).collect(),
    }
}

pub(crate) fn to_override(model: &ModelOverride) -> Override {
    let new = match &model.kind {
        ModelOverrideKind::Limits(limits) => Override::limits(named_policy("policy-0", limits)),
        ModelOverrideKind::Ban => Override::ban(),
        ModelOverrideKind::Exempt => Override::exempt(),
    };
    match model.until {
        Some(end) => new.until(timestamp(end)),
        None => new,
    }
}

pub(crate) fn override_summary(found: &Override) -> OverrideSummary {
    let kind = match found.rule() {
        OverrideRule::Limits(_) => "limits",
        OverrideRule::Ban => "ban",
        OverrideRule::Exempt => "exempt",
    };
    OverrideSummary { kind, until: found.end().map(|end| end.as_micros().into()) }
}
