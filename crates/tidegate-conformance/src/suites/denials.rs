//! Denied requests and peeks leave no trace, and a peek answers as a check would.

use proptest::prelude::*;
use tidegate::{Op, Reason};

use crate::generators::{self, Timeline};
use crate::model::ModelRequest;
use crate::property::{check, describe, expect, expect_equal};
use crate::test_store::TestStore;
use crate::{StoreUnderTest, settings};

/// A store that also got denied requests and peeks answers as a store that got the admitted requests only.
///
/// # Panics
/// If the store breaks this promise.
pub fn denied_requests_and_peeks_leave_no_trace<S: StoreUnderTest>() {
    let request = (generators::op(), generators::time_step(), generators::cost());
    let cases = (generators::policy(), generators::start_time(), prop::collection::vec(request, settings::steps(40)));
    let promise = "a denied request and a peek leave no trace";
    check::<S, _>(promise, settings::config(800), &cases, |(policy, start, requests)| {
        let (all, admitted_only) = (TestStore::<S>::new(start), TestStore::<S>::new(start + 1));
        let mut timeline = Timeline::new(start);
        let mut latest = start;
        for (op, time_step, cost) in requests {
            let request = ModelRequest::new(&policy, cost.units(&policy, timeline.last.as_ref()));
            let newest = timeline.charged.last().copied().unwrap_or(0);
            // A state that was dropped after its windows no longer moves an earlier time to its newest charge.
            let may_be_dropped = latest - newest >= policy.longest_window();
            let now = timeline.time_not_far_behind(time_step, &policy).max(if may_be_dropped { newest } else { 0 });
            latest = latest.max(now);
            let decision = all.decide(op, &request, now);
            if op != Op::Peek && decision.reason == Reason::Allowed {
                let expected = admitted_only.decide(op, &request, now);
                expect_equal(&expected, &decision, || describe(op, &request, now))?;
            } else {
                expect_equal(&None, &decision.charged_at, || format!("charged by {}", describe(op, &request, now)))?;
            }
            timeline.record(now, decision);
        }
        let newest = timeline.charged.last().copied().unwrap_or(0);
        for later in [0, 1, policy.limits[0].window / 2, policy.limits[0].window] {
            let (request, now) = (ModelRequest::new(&policy, 1), newest + later);
            let (expected, got) = (admitted_only.peek(&request, now), all.peek(&request, now));
            expect_equal(&expected, &got, || describe(Op::Peek, &request, now))?;
        }
        Ok(())
    });
}

/// A peek answers as the check that follows it, with the remaining units before the spend.
///
/// # Panics
/// If the store breaks this promise.
pub fn a_peek_answers_as_a_check_would<S: StoreUnderTest>() {
    let request = (generators::any_time_step(), generators::cost());
    let cases = (generators::policy(), generators::start_time(), prop::collection::vec(request, settings::steps(40)));
    let promise = "a peek answers as a check would and writes nothing";
    check::<S, _>(promise, settings::config(800), &cases, |(policy, start, requests)| {
        let store = TestStore::<S>::new(start);
        let mut timeline = Timeline::new(start);
        for (time_step, cost) in requests {
            let request = ModelRequest::new(&policy, cost.units(&policy, timeline.last.as_ref()));
            let now = timeline.time(time_step, &policy);
            let peeked = store.peek(&request, now);
            expect_equal(&peeked, &store.peek(&request, now), || {
                format!("second {}", describe(Op::Peek, &request, now))
            })?;
            let checked = store.check(&request, now);
            let after = || format!("{}, which answered {peeked:?}, then the check", describe(Op::Peek, &request, now));
            if checked.reason == Reason::Allowed {
                let expected = (Reason::Allowed, checked.remaining + request.cost, None, None);
                let before = (peeked.reason, peeked.remaining, peeked.retry_after, peeked.charged_at);
                expect_equal(&expected, &before, after)?;
                expect(checked.charged_at.is_some() && peeked.reset_after <= checked.reset_after, || {
                    format!("{}\n  got: {checked:?}", after())
                })?;
            } else {
                expect_equal(&peeked, &checked, after)?;
            }
            timeline.record(now, checked);
        }
        Ok(())
    });
}
