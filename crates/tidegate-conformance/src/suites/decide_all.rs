//! Several requests in one decision: all are charged or none, and the same policy and key twice is one request.

use proptest::prelude::*;
use tidegate::{Op, Reason};

use crate::comparison::Comparison;
use crate::generators::{self, CostChoice, TimeStep, Timeline};
use crate::model::{ModelPolicy, ModelRequest, Units};
use crate::property::{check, describe, describe_all, expect, expect_equal};
use crate::test_store::TestStore;
use crate::{StoreUnderTest, settings};

const MAX_COST: Units = 1_000_000_000_000;

/// One to four requests in one decision, each with the number of its policy, the number of its key and its cost.
type Decision = (Op, TimeStep, Vec<(u8, u8, CostChoice)>);

fn decision(time_step: impl Strategy<Value = TimeStep>) -> impl Strategy<Value = Decision> {
    let request = (0..3u8, 0..2u8, generators::cost());
    (generators::op(), time_step, prop::collection::vec(request, 1..=4))
}

/// Three policies, some in shadow mode.
fn policies() -> impl Strategy<Value = Vec<ModelPolicy>> {
    let shadow = prop_oneof![3 => Just(false), 1 => Just(true)];
    prop::collection::vec((generators::policy(), shadow), 3)
        .prop_map(|policies| policies.into_iter().map(|(policy, shadow)| ModelPolicy { shadow, ..policy }).collect())
}

/// The requests with their costs. The summed cost of a policy and key stays in range.
fn requests(policies: &[ModelPolicy], timeline: &Timeline, wanted: &[(u8, u8, CostChoice)]) -> Vec<ModelRequest> {
    let mut requests: Vec<ModelRequest> = Vec::new();
    for (policy, key, cost) in wanted {
        let id = (*policy, *key);
        let policy = policies[usize::from(*policy)].clone();
        let cost = cost.units(&policy, timeline.last.as_ref());
        let sum: Units = requests.iter().filter(|request| request.id == id).map(|request| request.cost).sum();
        if sum + cost <= MAX_COST {
            requests.push(ModelRequest { id, policy, cost });
        }
    }
    requests
}

/// The overall decision and the decision of each request equal those of the model.
///
/// # Panics
/// If the store breaks this promise.
pub fn decisions_over_several_requests_equal_the_model<S: StoreUnderTest>() {
    let cases = (
        policies(),
        generators::start_time(),
        prop::collection::vec(decision(generators::any_time_step()), settings::steps(20)),
    );
    let promise = "decisions over several requests equal those of the model";
    check::<S, _>(promise, settings::config(600), &cases, |(policies, start, decisions)| {
        let mut comparison = Comparison::<S>::new(start);
        for (op, time_step, wanted) in decisions {
            let requests = requests(&policies, &comparison.timeline, &wanted);
            let now = comparison.timeline.time(time_step, &policies[0]);
            comparison.decide_all(op, &requests, now)?;
        }
        Ok(())
    });
}

/// All requests are charged, or none is.
///
/// # Panics
/// If the store breaks this promise.
pub fn all_requests_are_charged_or_none<S: StoreUnderTest>() {
    let cases = (
        policies(),
        generators::start_time(),
        prop::collection::vec(decision(generators::time_step()), settings::steps(20)),
    );
    check::<S, _>("all requests are charged or none", settings::config(600), &cases, |case| {
        let (policies, start, decisions) = case;
        let policies: Vec<ModelPolicy> =
            policies.into_iter().map(|policy| ModelPolicy { shadow: false, ..policy }).collect();
        let store = TestStore::<S>::new(start);
        let mut timeline = Timeline::new(start);
        for (_, time_step, wanted) in decisions {
            let requests = requests(&policies, &timeline, &wanted);
            let now = timeline.not_far_behind(timeline.time(time_step, &policies[0]), &policies);
            let before: Vec<_> = requests.iter().map(|request| store.peek(request, now)).collect();
            let decisions = store.decide_all(Op::Check, &requests, now);
            let answered = || format!("{}\n  got: {decisions:?}", describe_all(Op::Check, &requests, now));
            let all = decisions.overall.reason == Reason::Allowed;
            for ((request, before), part) in requests.iter().zip(before).zip(&decisions.parts) {
                expect_equal(&all, &part.charged_at.is_some(), || {
                    format!("whether each request was charged, {}", answered())
                })?;
                let after = store.peek(request, now);
                if all {
                    expect(after.remaining < before.remaining, || {
                        format!("{request:?} was not charged, {}", answered())
                    })?;
                } else {
                    expect_equal(&before, &after, || {
                        format!("a peek of {request:?} before and after, {}", answered())
                    })?;
                }
            }
            let denied = decisions.parts.iter().any(|part| part.reason != Reason::Allowed);
            expect_equal(&!all, &denied, || format!("whether a request was denied, {}", answered()))?;
            timeline.record(now, decisions.overall);
        }
        Ok(())
    });
}

/// A decision that brings many new keys does not change the state of other keys.
///
/// # Panics
/// If the store breaks this promise.
pub fn new_keys_do_not_change_other_keys<S: StoreUnderTest>() {
    let cases = (
        generators::policy_of(generators::algorithm()),
        generators::start_time(),
        prop::collection::vec(1..=3i128, 40),
        1..=3i128,
    );
    let promise = "new keys do not change the state of other keys";
    check::<S, _>(promise, settings::config(600), &cases, |(policy, start, costs, later)| {
        // Twenty keys whose windows have passed or are about to pass, and twenty new keys, in turn.
        let mut comparison = Comparison::<S>::new(start);
        let request = |key: usize| {
            let id = (0, u8::try_from(key).expect("there are few keys"));
            ModelRequest { id, policy: policy.clone(), cost: costs[key % 40] }
        };
        for key in 0..20 {
            comparison.decide(Op::Charge, &request(2 * key), start)?;
        }
        let requests: Vec<ModelRequest> = (0..40).map(request).collect();
        comparison.decide_all(Op::Charge, &requests, start + later * policy.longest_window())?;
        for request in &requests {
            comparison.decide(Op::Peek, request, start + later * policy.longest_window())?;
        }
        Ok(())
    });
}

/// The same policy and key twice in one decision is one request of the summed cost.
///
/// # Panics
/// If the store breaks this promise.
pub fn the_same_policy_and_key_twice_is_one_request<S: StoreUnderTest>() {
    let request = (generators::op(), generators::time_step(), 1..=6i128, generators::cost());
    let cases = (generators::policy(), generators::start_time(), prop::collection::vec(request, settings::steps(20)));
    let promise = "the same policy and key twice is one request of the summed cost";
    check::<S, _>(promise, settings::config(600), &cases, |(policy, start, requests)| {
        let (twice, once) = (TestStore::<S>::new(start), TestStore::<S>::new(start + 1));
        let mut timeline = Timeline::new(start);
        for (op, time_step, one, cost) in requests {
            let other = (cost.units(&policy, timeline.last.as_ref()) - one).max(1);
            let now = timeline.time_not_far_behind(time_step, &policy);
            let requests = [one, other].map(|cost| ModelRequest::new(&policy, cost));
            let got = twice.decide_all(op, &requests, now).overall;
            let sum = ModelRequest::new(&policy, one + other);
            let expected = once.decide(op, &sum, now);
            expect_equal(&expected, &got, || {
                format!("{}\n  as one request: {}", describe_all(op, &requests, now), describe(op, &sum, now))
            })?;
            timeline.record(now, expected);
        }
        Ok(())
    });
}
