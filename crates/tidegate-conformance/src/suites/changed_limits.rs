//! A changed window, number of buckets or algorithm keeps the history, and alternating shapes don't re-date it.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use tidegate::Reason;

use crate::generators::{self, TimeStep, Timeline};
use crate::history::{History, Operation};
use crate::model::{Micros, ModelAlgorithm, ModelLimit, ModelPolicy, ModelRequest, Units};
use crate::property::check;
use crate::suites::windows::expect_at_most;
use crate::test_store::TestStore;
use crate::{StoreUnderTest, settings};

fn requests(time_step: impl Strategy<Value = TimeStep>, end: usize) -> impl Strategy<Value = Operation> {
    prop::collection::vec((generators::op(), time_step, generators::cost()), 1..end).prop_map(Operation::Requests)
}

/// A history with so few units that no shape saturates.
fn history<S: StoreUnderTest>(policies: Vec<ModelPolicy>, start: Micros) -> History<S> {
    History { max_cost: |_| 20, ..History::new(policies, start) }
}

/// Compares requests under one policy, then requests under another. `time` computes the time of a step.
fn check_change<S: StoreUnderTest>(
    promise: &str,
    cases: u32,
    policies: impl Strategy<Value = Vec<ModelPolicy>>,
    time_step: BoxedStrategy<TimeStep>,
    time: fn(&Timeline, TimeStep, &ModelPolicy) -> Micros,
) {
    let requests = [requests(time_step.clone(), 12), requests(time_step, 12)];
    let histories = (policies, generators::start_time(), requests);
    check::<S, _>(promise, settings::config(cases), &histories, |(policies, start, [before, after])| {
        History { time, ..history::<S>(policies, start) }.run([before, Operation::OtherShape, after])
    });
}

/// After a change of shape, the answers equal those of the model.
///
/// # Panics
/// If the store breaks this promise.
pub fn a_changed_shape_keeps_the_history<S: StoreUnderTest>() {
    let promise = "a changed window, number of buckets or algorithm keeps the history";
    check_change::<S>(promise, 1500, generators::two_policies(), generators::any_time_step().boxed(), Timeline::time);
}

/// Two nodes that alternate between an old and a new shape don't re-date the charges.
///
/// # Panics
/// If the store breaks this promise.
pub fn alternating_shapes_do_not_redate_charges<S: StoreUnderTest>() {
    let cases = (
        generators::two_policies(),
        generators::start_time(),
        prop::collection::vec((any::<bool>(), requests(generators::time_step(), 4)), settings::steps(12)),
    );
    let promise = "two shapes that alternate do not re-date the charges";
    check::<S, _>(promise, settings::config(1500), &cases, |(policies, start, operations)| {
        let switch_or_stay =
            |(switches, requests): (bool, _)| switches.then_some(Operation::OtherShape).into_iter().chain([requests]);
        History { time: Timeline::time_not_far_behind, ..history::<S>(policies, start) }
            .run(operations.into_iter().flat_map(switch_or_stay))
    });
}

/// The units in use of a gcra debt become one charge under another window.
///
/// # Panics
/// If the store breaks this promise.
pub fn a_gcra_debt_under_another_window_becomes_one_charge<S: StoreUnderTest>() {
    let policies = generators::single_limit_policies(Just(ModelAlgorithm::Gcra), 2);
    let policies = policies.prop_filter("the window changes", |policies| !policies[0].same_shape(&policies[1]));
    let promise = "a gcra debt under another window becomes one charge of the units in use";
    check_change::<S>(promise, 300, policies, generators::any_time_step().boxed(), Timeline::time);
}

/// Two policies with two limits each. One policy is gcra. They may share windows, in any order.
fn to_or_from_gcra() -> impl Strategy<Value = Vec<ModelPolicy>> {
    let windows = || subsequence(vec![1_000i128, 1_003, 10_000, 1_000_000], 2).prop_shuffle();
    let other =
        generators::algorithm().prop_filter("one of the two is gcra", |algorithm| *algorithm != ModelAlgorithm::Gcra);
    let maxes = prop::collection::vec(1..=12i128, 4);
    (other, windows(), windows(), maxes, any::<bool>()).prop_map(|(other, one, two, maxes, to_gcra)| {
        let limits = |windows: &[Micros], maxes: &[Units]| {
            windows.iter().zip(maxes).map(|(window, max)| ModelLimit::new(*max, *window)).collect()
        };
        let gcra = ModelPolicy::new(ModelAlgorithm::Gcra, limits(&one, &maxes[..2]));
        let other = ModelPolicy::new(other, limits(&two, &maxes[2..]));
        // The limits of a log share one history, which can't hold another number of units for each.
        if to_gcra || other.algorithm == ModelAlgorithm::SlidingLog { vec![other, gcra] } else { vec![gcra, other] }
    })
}

/// The limits of a changed policy are matched by window, then by position.
///
/// # Panics
/// If the store breaks this promise.
pub fn limits_are_matched_by_window_then_by_position<S: StoreUnderTest>() {
    let promise = "the limits of a changed policy are matched by window, then by position";
    let time_step = generators::time_step().boxed();
    check_change::<S>(promise, 500, to_or_from_gcra(), time_step, Timeline::time_not_far_behind);
}

/// Two policies with the same limits in another order, and with any two algorithms except gcra.
fn two_shapes() -> impl Strategy<Value = (ModelPolicy, ModelPolicy)> {
    let algorithm = || {
        let buckets = select(vec![1i128, 3, 7, 10]).prop_map(ModelAlgorithm::SlidingBuckets);
        prop_oneof![
            2 => Just(ModelAlgorithm::SlidingLog),
            2 => buckets,
            1 => Just(ModelAlgorithm::SlidingCounter),
            1 => Just(ModelAlgorithm::FixedWindow),
        ]
    };
    let windows = subsequence(vec![1_000i128, 1_003, 10_000, 1_000_000, 60_000_000], 2..=3);
    let limits = windows.prop_flat_map(|windows| {
        let count = windows.len();
        prop::collection::vec(1..=12i128, count).prop_map(move |maxes| {
            windows.iter().zip(maxes).map(|(window, max)| ModelLimit::new(max, *window)).collect::<Vec<_>>()
        })
    });
    (algorithm(), algorithm(), limits).prop_flat_map(|(one, two, limits)| {
        let shuffled = Just(limits.clone()).prop_shuffle();
        (Just(ModelPolicy::new(one, limits)), shuffled.prop_map(move |limits| ModelPolicy::new(two, limits)))
    })
}

/// Several limits that change their shape keep the weaker promise of both shapes.
///
/// # Panics
/// If the store breaks this promise.
pub fn alternating_shapes_of_several_limits_keep_the_window_promise<S: StoreUnderTest>() {
    let request = (prop::bool::weighted(0.3), generators::time_step(), generators::cost());
    let cases = (two_shapes(), generators::start_time(), prop::collection::vec(request, settings::steps(60)));
    let promise = "no window holds more than both shapes promise while several limits alternate between them";
    check::<S, _>(promise, settings::config(1500), &cases, |((one, two), start, requests)| {
        let store = TestStore::<S>::new(start);
        let mut timeline = Timeline::new(start);
        let mut charges: Vec<(Micros, Units)> = Vec::new();
        let mut is_one = true;
        for (switch, time_step, cost) in requests {
            is_one ^= switch;
            let policy = if is_one { &one } else { &two };
            let now = timeline.time_not_far_behind(time_step, policy);
            let request = ModelRequest::new(policy, cost.units(policy, timeline.last.as_ref()));
            let decision = store.check(&request, now);
            if decision.reason == Reason::Allowed {
                charges.push((decision.charged_at.expect("an admitted check is charged"), request.cost));
            }
            timeline.record(now, decision);
        }
        let is_exact = |algorithm| matches!(algorithm, ModelAlgorithm::SlidingLog | ModelAlgorithm::SlidingBuckets(_));
        let factor = if is_exact(one.algorithm) && is_exact(two.algorithm) { 1 } else { 2 };
        let policies = (&one, &two);
        one.limits.iter().try_for_each(|limit| expect_at_most(&charges, *limit, factor * limit.max, &policies))
    });
}
