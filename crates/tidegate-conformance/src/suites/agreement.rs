//! Every field of every answer equals that of the model, for any operation at any time.

use proptest::prelude::*;
use tidegate::Op;

use crate::comparison::Comparison;
use crate::generators::{self, CostChoice, TimeStep};
use crate::model::{MAX_STORED, Micros, ModelAlgorithm, ModelLimit, ModelPolicy, ModelRequest, Units};
use crate::property::check;
use crate::{StoreUnderTest, settings};

#[derive(Clone, Copy, Debug)]
enum Operation {
    Decide(Op, TimeStep, CostChoice),
    Refund { time_step: TimeStep, charge: usize, offset: Micros, cost: CostChoice },
    SetMax([Units; 3]),
    Reset,
}

fn set_max() -> impl Strategy<Value = Operation> {
    [generators::max(), generators::max(), generators::max()].prop_map(Operation::SetMax)
}

fn operation() -> impl Strategy<Value = Operation> {
    let offset = prop_oneof![4 => Just(0i128), 1 => -1..=1i128];
    let refund = (generators::any_time_step(), 0..6usize, offset, generators::cost());
    prop_oneof![
        16 => (generators::op(), generators::any_time_step(), generators::cost())
            .prop_map(|(op, time_step, cost)| Operation::Decide(op, time_step, cost)),
        4 => refund.prop_map(|(time_step, charge, offset, cost)| Operation::Refund { time_step, charge, offset, cost }),
        1 => set_max(),
        1 => Just(Operation::Reset),
    ]
}

/// The policy with other maxes. An explicit burst stays.
fn with_maxes(policy: &ModelPolicy, maxes: [Units; 3]) -> ModelPolicy {
    let default_burst = policy.limits.iter().all(|limit| limit.capacity == limit.max);
    let changed = |(limit, max): (&ModelLimit, Units)| {
        // A burst must not exceed the largest debt that can be stored at that max.
        let capacity = if default_burst { max } else { limit.capacity.min(MAX_STORED * max / limit.window) };
        ModelLimit { max, capacity, ..*limit }
    };
    ModelPolicy { limits: policy.limits.iter().zip(maxes).map(changed).collect(), ..policy.clone() }
}

fn apply<S: StoreUnderTest>(
    comparison: &mut Comparison<S>,
    policy: &mut ModelPolicy,
    operation: Operation,
) -> Result<(), TestCaseError> {
    let request = |comparison: &Comparison<S>, cost: CostChoice| {
        ModelRequest::new(policy, cost.units(policy, comparison.timeline.last.as_ref()))
    };
    match operation {
        Operation::Decide(op, time_step, cost) => {
            let now = comparison.timeline.time(time_step, policy);
            comparison.decide(op, &request(comparison, cost), now)
        }
        Operation::Refund { time_step, charge, offset, cost } => {
            let now = comparison.timeline.time(time_step, policy);
            let charged_at = (comparison.timeline.charge_time(charge) + offset).max(0);
            comparison.refund(&request(comparison, cost), charged_at, now)
        }
        Operation::SetMax(maxes) => {
            *policy = with_maxes(policy, maxes);
            Ok(())
        }
        Operation::Reset => comparison.reset(&request(comparison, CostChoice::Units(1))),
    }
}

/// Compares checks, peeks, charges, refunds, resets and inspections, with changes of the max.
///
/// # Panics
/// If the store breaks this promise.
pub fn every_answer_equals_the_model<S: StoreUnderTest>() {
    let cases =
        (generators::policy(), generators::start_time(), prop::collection::vec(operation(), settings::steps(30)));
    check::<S, _>("every answer equals that of the model", settings::config(2500), &cases, |case| {
        let (mut policy, start, operations) = case;
        let mut comparison = Comparison::<S>::new(start);
        for operation in operations {
            // The next test changes the max of a debt.
            if policy.algorithm != ModelAlgorithm::Gcra || !matches!(operation, Operation::SetMax(_)) {
                apply(&mut comparison, &mut policy, operation)?;
            }
        }
        Ok(())
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
        let (mut policy, start, operations) = case;
        let mut comparison = Comparison::<S>::new(start);
        for operation in operations {
            apply(&mut comparison, &mut policy, operation)?;
        }
        Ok(())
    });
}
