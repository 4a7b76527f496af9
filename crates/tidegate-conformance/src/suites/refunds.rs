//! A refund gives units back to the moment they were charged, not to now, and never moves the newest charge.

use proptest::prelude::*;
use tidegate::Op;

use crate::generators::{self, CostChoice, Timeline};
use crate::model::{ModelAlgorithm, ModelRequest};
use crate::property::{check, describe, expect, expect_equal};
use crate::test_store::{TestStore, describe_refund};
use crate::{StoreUnderTest, settings};

fn counting_algorithm() -> impl Strategy<Value = ModelAlgorithm> {
    prop_oneof![
        Just(ModelAlgorithm::SlidingLog),
        Just(ModelAlgorithm::SlidingCounter),
        (1..=1_000i128).prop_map(ModelAlgorithm::SlidingBuckets),
        Just(ModelAlgorithm::FixedWindow),
    ]
}

/// After a refund, a log or a counter answers as if the units had never been charged.
///
/// # Panics
/// If the store breaks this promise.
pub fn refunded_units_count_as_never_charged<S: StoreUnderTest>() {
    let cases = (
        generators::policy_of(counting_algorithm()),
        generators::start_time(),
        prop::collection::vec((generators::time_step(), 1..=5i128), 2..12),
        0..12usize,
        1..=5i128,
        prop::collection::vec(generators::time_step(), 1..8),
    );
    check::<S, _>("refunded units count as never charged", settings::config(800), &cases, |case| {
        let (policy, start, charges, refunded, units, later) = case;
        let (store, never_charged) = (TestStore::<S>::new(start), TestStore::<S>::new(start + 1));
        let mut timeline = Timeline::new(start);
        let mut times = Vec::new();
        let refunded = refunded % charges.len();
        for (i, (time_step, cost)) in charges.iter().enumerate() {
            let now = timeline.time_not_far_behind(*time_step, &policy);
            let decision = store.charge(&ModelRequest::new(&policy, *cost), now);
            let charged_at = decision.charged_at.expect("a charge is charged");
            let kept = if i == refunded { cost - units } else { *cost };
            if kept > 0 {
                // Both have the same newest charge, so both read an earlier time alike.
                never_charged.charge(&ModelRequest::new(&policy, kept), charged_at);
            }
            times.push(charged_at);
            timeline.record(now, decision);
        }
        let newest = *times.last().expect("there are two charges at least");
        // More units would be taken from another charge at the same time or in the same slot.
        let request = ModelRequest::new(&policy, units.min(charges[refunded].1));
        store.refund(&request, times[refunded], newest);
        for time_step in later {
            let now = timeline.time(time_step, &policy).max(newest);
            let peek = ModelRequest::new(&policy, 1);
            expect_equal(&never_charged.peek(&peek, now), &store.peek(&peek, now), || {
                format!("{}, then peek at {now} us", describe_refund(&request, times[refunded], newest))
            })?;
            timeline.now = now;
        }
        Ok(())
    });
}

/// A gcra charge that is refunded at once leaves the debt as it was.
///
/// # Panics
/// If the store breaks this promise.
pub fn a_gcra_charge_refunded_at_once_leaves_the_debt_as_it_was<S: StoreUnderTest>() {
    let cases = (
        generators::policy_of(Just(ModelAlgorithm::Gcra)),
        generators::start_time(),
        prop::collection::vec((generators::time_step(), generators::cost()), 1..10),
        1..=1_000i128,
    );
    let promise = "a gcra charge that is refunded at once leaves the debt as it was";
    check::<S, _>(promise, settings::config(800), &cases, |(policy, start, charges, cost)| {
        let store = TestStore::<S>::new(start);
        let mut timeline = Timeline::new(start);
        for (time_step, cost) in charges {
            let now = timeline.time_not_far_behind(time_step, &policy);
            let request = ModelRequest::new(&policy, cost.units(&policy, timeline.last.as_ref()));
            timeline.record(now, store.check(&request, now));
        }
        let now = timeline.now;
        let (request, peek) = (ModelRequest::new(&policy, cost.min(policy.storable())), ModelRequest::new(&policy, 1));
        let before = store.peek(&peek, now);
        let charged_at = store.charge(&request, now).charged_at.expect("a charge is charged");
        let refund = store.refund(&request, charged_at, now);
        let expected = (true, before.remaining, before.reset_after);
        let got = (refund.returned, refund.remaining, refund.reset_after);
        expect_equal(&expected, &got, || describe_refund(&request, charged_at, now))?;
        expect_equal(&before, &store.peek(&peek, now), || describe(Op::Peek, &peek, now))
    });
}

/// A refund with a charge time after the newest charge does nothing.
///
/// # Panics
/// If the store breaks this promise.
pub fn a_refund_dated_after_the_newest_charge_does_nothing<S: StoreUnderTest>() {
    let cases = (
        generators::policy(),
        generators::start_time(),
        generators::cost(),
        prop_oneof![Just(1i128), 1..=1_000_000i128],
    );
    let promise = "a refund dated after the newest charge does nothing";
    check::<S, _>(promise, settings::config(800), &cases, |(policy, start, cost, later)| {
        let store = TestStore::<S>::new(start);
        let charge = ModelRequest::new(&policy, CostChoice::Units(1).units(&policy, None));
        let charged_at = store.charge(&charge, start).charged_at.expect("a charge is charged");
        let peek = ModelRequest::new(&policy, 1);
        let before = store.peek(&peek, start);
        let request = ModelRequest::new(&policy, cost.units(&policy, None));
        let refund = store.refund(&request, charged_at + later, start + later + 1);
        let operation = || describe_refund(&request, charged_at + later, start + later + 1);
        expect(!refund.returned, || format!("{}\n  got: {refund:?}", operation()))?;
        expect_equal(&before, &store.peek(&peek, start), || format!("{}, then peek", operation()))
    });
}
