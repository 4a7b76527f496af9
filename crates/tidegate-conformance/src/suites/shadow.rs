//! A shadow policy keeps the state of an enforcing policy, never denies, and reports the decision of an enforcing policy.

use proptest::prelude::*;
use tidegate::{Op, Reason};

use crate::generators::{self, Timeline};
use crate::model::{ModelDecision, ModelPolicy, ModelRequest};
use crate::property::{check, describe, describe_all, expect_equal};
use crate::test_store::TestStore;
use crate::{StoreUnderTest, settings};

/// The answers of a shadow policy equal those of an enforcing policy, except that a denial has the reason `shadow`.
///
/// # Panics
/// If the store breaks this promise.
pub fn a_shadow_policy_answers_as_an_enforcing_policy_and_never_denies<S: StoreUnderTest>() {
    let request = (generators::op(), generators::any_time_step(), generators::cost());
    let cases = (generators::policy(), generators::start_time(), prop::collection::vec(request, settings::steps(30)));
    let promise = "a shadow policy answers as an enforcing policy and never denies";
    check::<S, _>(promise, settings::config(800), &cases, |(policy, start, requests)| {
        let (shadow, enforcing) = (TestStore::<S>::new(start), TestStore::<S>::new(start + 1));
        let mut timeline = Timeline::new(start);
        for (op, time_step, cost) in requests {
            let now = timeline.time(time_step, &policy);
            let request = ModelRequest::new(&policy, cost.units(&policy, timeline.last.as_ref()));
            let enforced = enforcing.decide(op, &request, now);
            let request = ModelRequest { policy: ModelPolicy { shadow: true, ..policy.clone() }, ..request };
            let expected = match enforced.reason {
                Reason::Allowed => enforced,
                _ => ModelDecision { reason: Reason::Shadow, ..enforced },
            };
            expect_equal(&expected, &shadow.decide(op, &request, now), || describe(op, &request, now))?;
            timeline.record(now, enforced);
        }
        Ok(())
    });
}

/// A shadow policy does not change the decision of an enforcing policy in the same request.
///
/// # Panics
/// If the store breaks this promise.
pub fn a_shadow_policy_never_vetoes<S: StoreUnderTest>() {
    let request = (generators::time_step(), generators::cost(), generators::cost());
    let cases = (
        generators::policy(),
        generators::policy(),
        generators::start_time(),
        prop::collection::vec(request, settings::steps(30)),
    );
    let promise = "a shadow policy never vetoes a decision over several requests";
    check::<S, _>(promise, settings::config(800), &cases, |(policy, shadow, start, requests)| {
        let shadow = ModelPolicy { shadow: true, ..shadow };
        let (both, alone) = (TestStore::<S>::new(start), TestStore::<S>::new(start + 1));
        let mut timeline = Timeline::new(start);
        for (time_step, cost, shadow_cost) in requests {
            let request = ModelRequest::new(&policy, cost.units(&policy, timeline.last.as_ref()));
            let cost = shadow_cost.units(&shadow, timeline.last.as_ref());
            let shadow_request = ModelRequest { id: (1, 0), policy: shadow.clone(), cost };
            let now = timeline.time_not_far_behind(time_step, &policy);
            let requests = [shadow_request, request.clone()];
            let together = both.decide_all(Op::Check, &requests, now);
            let expected = alone.check(&request, now);
            let own = ModelDecision { part: 0, ..together.parts[1] };
            expect_equal(&expected, &own, || {
                format!("decision of the second request {}", describe_all(Op::Check, &requests, now))
            })?;
            let denied = matches!(together.overall.reason, Reason::Limited | Reason::Impossible);
            expect_equal(&(expected.reason != Reason::Allowed), &denied, || {
                format!("whether the overall decision is a denial {}", describe_all(Op::Check, &requests, now))
            })?;
            timeline.record(now, expected);
        }
        Ok(())
    });
}
