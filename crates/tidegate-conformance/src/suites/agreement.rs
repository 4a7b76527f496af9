//! Every field of every answer equals that of the model, for any operation at any time.

use proptest::prelude::*;

use crate::generators;
use crate::history::{History, Operation};
use crate::model::ModelAlgorithm;
use crate::property::check;
use crate::{StoreUnderTest, settings};

fn set_max() -> impl Strategy<Value = Operation> {
    [generators::max(), generators::max(), generators::max()].prop_map(Operation::SetMax)
}

fn operation() -> impl Strategy<Value = Operation> {
    let request = (generators::op(), generators::any_time_step(), generators::cost());
    let offset = prop_oneof![4 => Just(0i128), 1 => -1..=1i128];
    let refund = (generators::any_time_step(), 0..6usize, offset, generators::cost());
    prop_oneof![
        16 => request.prop_map(|request| Operation::Requests(vec![request])),
        4 => refund.prop_map(|(time_step, charge, offset, cost)| Operation::Refund {
            time_step, charge, offset, times: 1, cost
        }),
        1 => set_max(),
        1 => Just(Operation::Reset),
    ]
}

/// Compares checks, peeks, charges, refunds, resets and inspections, with changes of the max.
///
/// # Panics
/// If the store breaks this promise.
pub fn every_answer_equals_the_model<S: StoreUnderTest>() {
    let cases =
        (generators::policy(), generators::start_time(), prop::collection::vec(operation(), settings::steps(30)));
    check::<S, _>("every answer equals that of the model", settings::config(2500), &cases, |case| {
        let (policy, start, operations) = case;
        History::<S>::new(vec![policy], start).run(operations)
    });
}

/// A changed max applies to a gcra debt at once, and the debt stays: `used = ceil(debt * max / window)`.
///
/// # Panics
/// If the store breaks this promise.
pub fn a_gcra_debt_stays_under_another_max<S: StoreUnderTest>() {
    let operation = prop_oneof![2 => operation(), 1 => set_max()];
    let cases = (
        generators::policy_of(Just(ModelAlgorithm::Gcra)),
        generators::start_time(),
        prop::collection::vec(operation, settings::steps(20)),
    );
    check::<S, _>("a gcra debt stays under another max", settings::config(2500), &cases, |case| {
        let (policy, start, operations) = case;
        History::<S> { sets_gcra_max: true, ..History::new(vec![policy], start) }.run(operations)
    });
}
