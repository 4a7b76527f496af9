//! The promise of each algorithm about any window on the timeline, computed from the admitted charges alone.

use std::fmt::Debug;

use proptest::prelude::*;
use tidegate::{Op, Reason};

use crate::generators::{self, CostChoice, TimeStep, Timeline};
use crate::model::{Micros, ModelAlgorithm, ModelLimit, ModelRequest, Units};
use crate::property::{check, describe, expect};
use crate::test_store::TestStore;
use crate::{StoreUnderTest, settings};

/// The units charged in (from, to].
fn charged_within(charges: &[(Micros, Units)], from: Micros, to: Micros) -> Units {
    charges.iter().filter(|(at, _)| from < *at && *at <= to).map(|(_, units)| units).sum()
}

/// Expects that no window that ends with a charge holds more than `max` units.
pub(super) fn expect_at_most(
    charges: &[(Micros, Units)],
    limit: ModelLimit,
    max: Units,
    policies: &impl Debug,
) -> Result<(), TestCaseError> {
    charges.iter().try_for_each(|(end, _)| {
        let sum = charged_within(charges, end - limit.window, *end);
        expect(sum <= max, || {
            format!(
                "units in the window of {limit:?} up to {end} us under {policies:?}\n  expected: at most {max}\n  got:      {sum}\n  charges:  {charges:?}"
            )
        })
    })
}

/// The maximum number of units in a window.
fn max_in_window(algorithm: ModelAlgorithm, limit: ModelLimit) -> Units {
    match algorithm {
        ModelAlgorithm::SlidingLog | ModelAlgorithm::SlidingBuckets(_) => limit.max,
        ModelAlgorithm::SlidingCounter | ModelAlgorithm::FixedWindow => 2 * limit.max,
        ModelAlgorithm::Gcra => limit.max + limit.capacity,
    }
}

fn requests() -> impl Strategy<Value = Vec<(TimeStep, CostChoice)>> {
    prop::collection::vec((generators::time_step(), generators::cost()), settings::steps(60))
}

/// No window holds more units than its algorithm promises.
///
/// # Panics
/// If the store breaks this promise.
pub fn no_window_holds_more_than_promised<S: StoreUnderTest>() {
    let cases = (generators::policy(), generators::start_time(), requests());
    let promise = "no window holds more units than its algorithm promises";
    check::<S, _>(promise, settings::config(1000), &cases, |(policy, start, requests)| {
        let store = TestStore::<S>::new(start);
        let mut timeline = Timeline::new(start);
        let mut charges: Vec<(Micros, Units)> = Vec::new();
        for (time_step, cost) in requests {
            let request = ModelRequest::new(&policy, cost.units(&policy, timeline.last.as_ref()));
            let now = timeline.time_not_far_behind(time_step, &policy);
            let decision = store.check(&request, now);
            if decision.reason == Reason::Allowed {
                charges.push((decision.charged_at.expect("an admitted check is charged"), request.cost));
            }
            timeline.record(now, decision);
        }
        let expect_limit =
            |limit: &ModelLimit| expect_at_most(&charges, *limit, max_in_window(policy.algorithm, *limit), &policy);
        policy.limits.iter().try_for_each(expect_limit)
    });
}

/// The units in use of a log are those in the window. A bucket is counted at most one slot longer.
///
/// # Panics
/// If the store breaks this promise.
pub fn units_are_counted_for_a_window_and_at_most_one_slot<S: StoreUnderTest>() {
    let algorithm = prop_oneof![
        Just(ModelAlgorithm::SlidingLog),
        (1..=1_000i128).prop_map(ModelAlgorithm::SlidingBuckets),
        Just(ModelAlgorithm::SlidingBuckets(7)),
    ];
    let cases = (generators::policy_of(algorithm), generators::start_time(), requests());
    let promise = "units are counted for a window, and for at most one slot longer with buckets";
    check::<S, _>(promise, settings::config(1000), &cases, |(mut policy, start, requests)| {
        policy.limits.truncate(1);
        let window = policy.limits[0].window;
        let slot = match policy.algorithm {
            ModelAlgorithm::SlidingBuckets(n) => (window + n - 1) / n,
            _ => 0,
        };
        let store = TestStore::<S>::new(start);
        let mut timeline = Timeline::new(start);
        let mut charges = Vec::new();
        for (i, (time_step, cost)) in requests.iter().enumerate() {
            let request = ModelRequest::new(&policy, cost.units(&policy, timeline.last.as_ref()));
            let now = timeline.time_not_far_behind(*time_step, &policy);
            let op = if i % 2 == 0 { Op::Check } else { Op::Peek };
            let decision = store.decide(op, &request, now);
            charges.extend(decision.charged_at.map(|at| (at, request.cost)));
            let at = charges.last().map_or(now, |(newest, _)| now.max(*newest));
            let least = charged_within(&charges, at - window, at);
            let greatest = charged_within(&charges, at - window - slot, at);
            expect((least..=greatest).contains(&decision.used), || {
                let operation = describe(op, &request, now);
                format!(
                    "units in use: {operation}\n  expected: {least} to {greatest}\n  got:      {}\n  charges: {charges:?}",
                    decision.used
                )
            })?;
            timeline.record(now, decision);
        }
        Ok(())
    });
}
