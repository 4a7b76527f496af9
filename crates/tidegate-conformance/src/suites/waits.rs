//! Waits are exact: a request is admitted after `retry_after`, no units are in use after `reset_after`, and neither is
//! true a microsecond earlier.

use proptest::prelude::*;
use tidegate::{Op, Reason};

use crate::generators::{self, Timeline};
use crate::model::{MAX_STORED, ModelRequest};
use crate::property::{check, describe, expect, expect_equal};
use crate::test_store::TestStore;
use crate::{StoreUnderTest, settings};

/// A caller that waits for `retry_after` is admitted. A caller that waits a microsecond less is denied.
///
/// # Panics
/// If the store breaks this promise.
pub fn retry_after_is_exact<S: StoreUnderTest>() {
    let request = (generators::op(), generators::any_time_step(), generators::cost());
    let cases = (generators::policy(), generators::start_time(), prop::collection::vec(request, settings::steps(30)));
    let promise = "a request is admitted after retry_after, and not a microsecond earlier";
    check::<S, _>(promise, settings::config(1000), &cases, |(policy, start, requests)| {
        let store = TestStore::<S>::new(start);
        let mut timeline = Timeline::new(start);
        for (op, time_step, cost) in requests {
            let request = ModelRequest::new(&policy, cost.units(&policy, timeline.last.as_ref()));
            let now = timeline.time(time_step, &policy);
            let decision = store.decide(op, &request, now);
            let answered = || format!("{}, which answered {decision:?}", describe(op, &request, now));
            expect_equal(&(decision.reason == Reason::Limited), &decision.retry_after.is_some(), || {
                format!("whether there is a retry time after {}", answered())
            })?;
            // A peek does not store a time that is far behind, so a later peek may read its time in another way.
            let is_stored = op != Op::Peek || timeline.charged.last().is_none_or(|newest| *newest <= now);
            if let Some(wait) = decision.retry_after.filter(|wait| now + *wait < MAX_STORED) {
                expect(wait > 0, || format!("retry_after is 0 after {}", answered()))?;
                if is_stored {
                    let early = store.peek(&request, now + wait - 1);
                    expect_equal(&(Reason::Limited, Some(1)), &(early.reason, early.retry_after), || {
                        format!("peek a microsecond before retry_after has passed, after {}", answered())
                    })?;
                    expect_equal(&Reason::Allowed, &store.peek(&request, now + wait).reason, || {
                        format!("peek when retry_after has passed, after {}", answered())
                    })?;
                }
            }
            timeline.record(now, decision);
        }
        Ok(())
    });
}

/// No units are in use after `reset_after`. Some are in use a microsecond earlier.
///
/// # Panics
/// If the store breaks this promise.
pub fn reset_after_is_exact<S: StoreUnderTest>() {
    let request = (generators::time_step(), generators::cost());
    let cases = (generators::policy(), generators::start_time(), prop::collection::vec(request, settings::steps(30)));
    let promise = "no units are in use after reset_after, and some are a microsecond earlier";
    check::<S, _>(promise, settings::config(1000), &cases, |(policy, start, requests)| {
        let store = TestStore::<S>::new(start);
        let mut timeline = Timeline::new(start);
        let least_capacity = policy.limits.iter().map(|limit| limit.capacity).min().expect("a policy has a limit");
        for (time_step, cost) in requests {
            let request = ModelRequest::new(&policy, cost.units(&policy, timeline.last.as_ref()));
            let now = timeline.time_not_far_behind(time_step, &policy);
            let decision = store.check(&request, now);
            timeline.record(now, decision);
            let wait = decision.reset_after;
            if now + wait >= MAX_STORED {
                continue;
            }
            let answered = || format!("{}, which answered {decision:?}", describe(Op::Check, &request, now));
            let empty = store.peek(&request, now + wait);
            expect_equal(&(0, 0, least_capacity), &(empty.used, empty.reset_after, empty.remaining), || {
                format!("used, reset_after and remaining when reset_after has passed, after {}", answered())
            })?;
            if wait > 0 {
                expect_equal(&1, &store.peek(&request, now + wait - 1).reset_after, || {
                    format!("reset_after a microsecond before it has passed, after {}", answered())
                })?;
            }
        }
        Ok(())
    });
}
