//! Overrides: the answers equal those of the model while overrides are set, replaced, removed and end.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::Config;
use tidegate::{Limit, Op, Override, Policy, Store};

use crate::comparison::Comparison;
use crate::convert::timestamp;
use crate::generators::{self, CostChoice, TimeStep};
use crate::model::{Micros, ModelLimit, ModelOverride, ModelOverrideKind, ModelPolicy, ModelRequest, Units};
use crate::property::{check, expect_equal};
use crate::{StoreUnderTest, settings};

/// The number of a policy and the number of a key.
type Id = (u8, u8);

/// The time of an operation: a step, or near the end of an override.
#[derive(Clone, Copy, Debug)]
enum TimeChoice {
    Step(TimeStep),
    OverrideEnd(Micros),
}

/// The duration of an override.
#[derive(Clone, Copy, Debug)]
enum DurationChoice {
    Micros(Micros),
    /// A part of the longest window, in eighths.
    WindowEighths(i128),
    /// The retry time of the last decision, plus an offset.
    RetryAfter(Micros),
    Permanent,
}

#[derive(Clone, Copy, Debug)]
enum KindChoice {
    Limits,
    Ban,
    Exempt,
}

#[derive(Clone, Debug)]
enum Operation {
    Decide(Op, TimeChoice, Vec<(Id, CostChoice)>),
    Refund(TimeChoice, Id, usize, CostChoice),
    Set(TimeChoice, Id, KindChoice, DurationChoice),
    Remove(TimeChoice, Id),
    Reset(Id),
}

fn time() -> impl Strategy<Value = TimeChoice> {
    prop_oneof![
        4 => generators::time_step().prop_map(TimeChoice::Step),
        1 => (-1..=1i128).prop_map(TimeChoice::OverrideEnd),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let requests = prop_oneof![
        3 => generators::cost().prop_map(|cost| vec![((0, 0), cost)]),
        1 => prop::collection::vec(((0..2u8, 0..2u8), generators::cost()), 1..=3),
    ];
    let duration = prop_oneof![
        2 => (1..=3i128).prop_map(DurationChoice::Micros),
        3 => (1..=20i128).prop_map(DurationChoice::WindowEighths),
        2 => (-1..=1i128).prop_map(DurationChoice::RetryAfter),
        2 => Just(DurationChoice::Permanent),
    ];
    let kind = prop_oneof![3 => Just(KindChoice::Limits), 2 => Just(KindChoice::Ban), 1 => Just(KindChoice::Exempt)];
    let id = || prop_oneof![3 => Just((0, 0)), 1 => (0..2u8, 0..2u8)];
    prop_oneof![
        12 => (generators::op(), time(), requests)
            .prop_map(|(op, time, requests)| Operation::Decide(op, time, requests)),
        2 => (time(), id(), 0..6usize, generators::cost())
            .prop_map(|(time, id, charge, cost)| Operation::Refund(time, id, charge, cost)),
        4 => (time(), id(), kind, duration)
            .prop_map(|(time, id, kind, duration)| Operation::Set(time, id, kind, duration)),
        1 => (time(), id()).prop_map(|(time, id)| Operation::Remove(time, id)),
        1 => id().prop_map(Operation::Reset),
    ]
}

/// Two policies, each with the limits that may override its own.
struct History<S> {
    comparison: Comparison<S>,
    policies: [[ModelPolicy; 2]; 2],
    latest: Micros,
}

impl<S: StoreUnderTest> History<S> {
    fn request(&self, id: Id, cost: CostChoice) -> ModelRequest {
        let policy = self.policies[usize::from(id.0)][0].clone();
        let cost = cost.units(&policy, self.comparison.timeline.last.as_ref()).min(20);
        ModelRequest { id, policy, cost }
    }

    fn request_for_one_unit(&self, id: Id) -> ModelRequest {
        self.request(id, CostChoice::Units(1))
    }

    /// The time of an operation. It is not far behind under any policy.
    fn time(&self, time: TimeChoice, id: Id) -> Micros {
        let timeline = &self.comparison.timeline;
        let end = self.comparison.model.overrides.get(&id).and_then(|found| found.until);
        let time = match (time, end) {
            (TimeChoice::OverrideEnd(offset), Some(end)) => end + offset,
            (TimeChoice::OverrideEnd(_), None) => timeline.now,
            (TimeChoice::Step(step), _) => timeline.time(step, &self.policies[usize::from(id.0)][0]),
        };
        timeline.not_far_behind(time, self.policies.iter().flatten()).max(0)
    }

    /// Removes ended overrides where the contract leaves open whether they still exist: a store may drop an override once
    /// it has seen its end, and `now` may be before that end.
    fn remove_ended_overrides(&mut self, now: Micros) {
        let ids: Vec<Id> = self.comparison.model.overrides.keys().copied().collect();
        for id in ids {
            let request = self.request_for_one_unit(id);
            let newest = self.comparison.model.state(id).newest_charge.unwrap_or(0);
            let end = self.comparison.model.overrides[&id].until;
            if end.is_some_and(|end| now < end && end <= self.latest.max(newest)) {
                self.comparison.model.remove_override(&request, now);
                self.comparison.store.remove_override(&request, now);
            }
        }
        self.latest = self.latest.max(now);
        self.delete_expired_states(now);
    }

    /// Deletes states in which nothing is in use, which a store may drop whenever another key arrives.
    fn delete_expired_states(&mut self, now: Micros) {
        for id in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let state = self.comparison.model.state(id);
            let (Some(stored), Some(newest)) = (&state.policy, state.newest_charge) else { continue };
            let is_idle = (0..stored.limits.len()).all(|i| state.used(stored, i, self.latest) == 0);
            if is_idle && self.latest - newest >= stored.longest_window() {
                let request = self.request_for_one_unit(id);
                self.comparison.model.reset(&request);
                self.comparison.store.reset(&request, now);
            }
        }
    }

    fn set(&mut self, now: Micros, id: Id, kind: KindChoice, duration: DurationChoice) -> Result<(), TestCaseError> {
        let [own, other] = &self.policies[usize::from(id.0)];
        let until = match duration {
            DurationChoice::Micros(micros) => Some(now + micros),
            DurationChoice::WindowEighths(eighths) => Some(now + own.longest_window() * eighths / 8),
            DurationChoice::RetryAfter(offset) => {
                let wait = self.comparison.timeline.last.and_then(|decision| decision.retry_after).unwrap_or(5);
                Some(now + (wait + offset).max(1))
            }
            DurationChoice::Permanent => None,
        };
        let kind = match kind {
            KindChoice::Limits => ModelOverrideKind::Limits(other.clone()),
            KindChoice::Ban => ModelOverrideKind::Ban,
            KindChoice::Exempt => ModelOverrideKind::Exempt,
        };
        let (request, new) = (self.request_for_one_unit(id), ModelOverride { kind, until });
        let expected = self.comparison.model.set_override(&request, &new, now);
        let got = self.comparison.store.set_override(&request, &new, now);
        expect_equal(&expected, &got, || format!("set the override {new:?} at {now} us under {:?}", request.policy))
    }

    fn apply(&mut self, operation: Operation) -> Result<(), TestCaseError> {
        let (time, id) = match &operation {
            Operation::Decide(_, time, requests) => (*time, requests[0].0),
            Operation::Refund(time, id, ..) | Operation::Set(time, id, ..) | Operation::Remove(time, id) => {
                (*time, *id)
            }
            Operation::Reset(id) => (TimeChoice::Step(TimeStep::Same), *id),
        };
        let now = self.time(time, id);
        self.remove_ended_overrides(now);
        match operation {
            Operation::Decide(op, _, wanted) => {
                let requests: Vec<ModelRequest> = wanted.iter().map(|(id, cost)| self.request(*id, *cost)).collect();
                match &requests[..] {
                    [request] => self.comparison.decide(op, request, now)?,
                    _ => self.comparison.decide_all(op, &requests, now)?,
                }
            }
            // During a change of shape, the contract leaves open which of several charges in a slot is refunded.
            Operation::Refund(..) if self.comparison.model.state(id).shape_change.is_some() => {}
            Operation::Refund(_, _, charge, cost) => {
                let charged_at = self.comparison.timeline.charge_time(charge);
                self.comparison.refund(&self.request(id, cost), charged_at, now)?;
            }
            Operation::Set(_, _, kind, duration) => self.set(now, id, kind, duration)?,
            Operation::Remove(..) => {
                let request = self.request_for_one_unit(id);
                let expected = self.comparison.model.remove_override(&request, now);
                let got = self.comparison.store.remove_override(&request, now);
                expect_equal(&expected, &got, || {
                    format!("remove the override at {now} us under {:?}", request.policy)
                })?;
            }
            Operation::Reset(_) => self.comparison.reset(&self.request_for_one_unit(id))?,
        }
        let request = self.request_for_one_unit(id);
        let expected = self.comparison.model.override_of(&request, now);
        let got = self.comparison.store.override_of(&request, now);
        expect_equal(&expected, &got, || format!("show the override at {now} us under {:?}", request.policy))
    }
}

/// A policy of one limit and another limit, each with any algorithm.
fn other_shape() -> impl Strategy<Value = [ModelPolicy; 2]> {
    generators::two_policies().prop_map(|policies| policies.try_into().expect("there are two policies"))
}

/// A policy of one to three limits and the same policy with other maxes.
fn other_maxes() -> impl Strategy<Value = [ModelPolicy; 2]> {
    (generators::policy(), prop::collection::vec(1..=12i128, 6)).prop_map(|(policy, maxes)| {
        let with = |maxes: &[Units]| {
            let limits = policy.limits.iter().zip(maxes).map(|(limit, max)| ModelLimit::new(*max, limit.window));
            ModelPolicy { limits: limits.collect(), ..policy.clone() }
        };
        [with(&maxes[..3]), with(&maxes[3..])]
    })
}

fn policy() -> impl Strategy<Value = [ModelPolicy; 2]> {
    (prop_oneof![other_shape(), other_maxes()], prop::bool::weighted(0.2))
        .prop_map(|([own, other], shadow)| [ModelPolicy { shadow, ..own }, other])
}

fn compare<S: StoreUnderTest>(config: Config, steps: std::ops::Range<usize>, inspect_every: usize) {
    let cases = ([policy(), policy()], generators::start_time(), prop::collection::vec(operation(), steps));
    let promise = "every answer under overrides equals that of the model";
    check::<S, _>(promise, config, &cases, |(policies, start, operations)| {
        let mut history = History { comparison: Comparison::<S>::new(start), policies, latest: start };
        history.comparison.inspect_every = inspect_every;
        for operation in operations {
            history.apply(operation)?;
        }
        Ok(())
    });
}

/// Compares decisions, refunds, resets and overrides that are set, replaced, removed and end.
///
/// # Panics
/// If the store breaks this promise.
pub fn every_answer_under_overrides_equals_the_model<S: StoreUnderTest>() {
    compare::<S>(settings::config(1200), settings::steps(30), 1);
}

/// Compares the same operations in histories of 300 operations and more.
///
/// # Panics
/// If the store breaks this promise.
pub fn long_histories_under_overrides_equal_the_model<S: StoreUnderTest>() {
    compare::<S>(settings::long_config(8), settings::long_steps(), 5);
}

/// The overrides of a policy are listed in the order of their keys. Removed and ended overrides are not listed.
///
/// # Panics
/// If the store breaks this promise.
pub fn overrides_are_listed_in_the_order_of_their_keys<S: StoreUnderTest>() {
    let second = 1_000_000;
    let store = S::empty(0);
    let limit = Limit::new(5, Duration::from_secs(60)).expect("in range");
    let [listed, other] = ["listed", "other"].map(|name| Policy::new(name, [limit]).expect("in range"));
    let new = [
        (&listed, "b", Override::ban()),
        (&listed, "c", Override::exempt()),
        (&listed, "a", Override::ban().until(timestamp(2 * second))),
        (&other, "d", Override::ban()),
    ];
    for (policy, name, new) in new {
        let key = store.key(name.as_bytes());
        store.run(store.at(timestamp(second)).set_override(policy, &key, new)).expect("the store answers");
    }
    let assert_listed = |names: &[&str], now: Micros| {
        // A store that shares a server may list the overrides of other tests, too.
        let own = ["a", "b", "c", "d"].map(|name| store.key(name.as_bytes()));
        let all = store.run(store.at(timestamp(now)).overrides(&listed)).expect("the store answers");
        let got: Vec<_> = all.into_iter().map(|found| found.key).filter(|key| own.contains(key)).collect();
        let expected: Vec<_> = names.iter().map(|name| store.key(name.as_bytes())).collect();
        assert!(
            got == expected,
            "broken promise: the overrides of a policy are listed in the order of their keys\n\
             list at {now} us\n  expected: {expected:?}\n  got:      {got:?}"
        );
    };
    assert_listed(&["a", "b", "c"], second);
    assert_listed(&["b", "c"], 2 * second);
    store.run(store.at(timestamp(2 * second)).remove_override(&listed, &store.key(b"c"))).expect("the store answers");
    assert_listed(&["b"], 2 * second);
}
