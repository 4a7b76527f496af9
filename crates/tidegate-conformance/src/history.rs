//! [`History`]: random operations on one key, each compared with the model.

use proptest::prelude::*;
use tidegate::Op;

use crate::StoreUnderTest;
use crate::comparison::Comparison;
use crate::generators::{CostChoice, TimeStep, Timeline};
use crate::model::{MAX_STORED, Micros, ModelAlgorithm, ModelLimit, ModelPolicy, ModelRequest, Units};

/// A request as an intention.
pub(crate) type Request = (Op, TimeStep, CostChoice);

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Requests one after another.
    Requests(Vec<Request>),
    /// Many requests at different times. Two are apart by at most this part of the longest window, in thousandths, or by
    /// a few microseconds.
    Burst {
        op: Op,
        count: usize,
        thousandths: Option<i128>,
        seed: u64,
    },
    /// Refunds of one charge, at a time near that of the charge.
    Refund {
        time_step: TimeStep,
        charge: usize,
        offset: Micros,
        times: usize,
        cost: CostChoice,
    },
    SetMax([Units; 3]),
    /// The next policy applies.
    OtherShape,
    Reset,
}

/// A key under one policy, or under policies that differ in their shapes.
pub(crate) struct History<S> {
    pub(crate) comparison: Comparison<S>,
    pub(crate) policies: Vec<ModelPolicy>,
    pub(crate) current: usize,
    /// Computes the time of a step.
    pub(crate) time: fn(&Timeline, TimeStep, &ModelPolicy) -> Micros,
    /// The maximum cost of a request, so that no debt saturates.
    pub(crate) max_cost: fn(&ModelPolicy) -> Units,
    /// Whether a gcra policy gets another max, too.
    pub(crate) sets_gcra_max: bool,
}

impl<S: StoreUnderTest> History<S> {
    pub(crate) fn new(policies: Vec<ModelPolicy>, start: Micros) -> Self {
        Self {
            comparison: Comparison::new(start),
            policies,
            current: 0,
            time: Timeline::time,
            max_cost: |_| Units::MAX,
            sets_gcra_max: false,
        }
    }

    /// Compares all operations.
    pub(crate) fn run(mut self, operations: impl IntoIterator<Item = Operation>) -> Result<(), TestCaseError> {
        operations.into_iter().try_for_each(|operation| self.apply(operation))
    }

    fn has_several_shapes(&self) -> bool {
        self.policies.len() > 1
    }

    fn request(&self, cost: CostChoice) -> ModelRequest {
        let policy = &self.policies[self.current];
        let cost = cost.units(policy, self.comparison.timeline.last.as_ref());
        ModelRequest::new(policy, cost.min((self.max_cost)(policy)))
    }

    fn decide(&mut self, (op, time_step, cost): Request) -> Result<(), TestCaseError> {
        let request = self.request(cost);
        let now = (self.time)(&self.comparison.timeline, time_step, &request.policy);
        self.comparison.decide(op, &request, now)
    }

    fn apply(&mut self, operation: Operation) -> Result<(), TestCaseError> {
        match operation {
            Operation::Requests(requests) => requests.into_iter().try_for_each(|request| self.decide(request))?,
            Operation::Burst { op, count, thousandths, mut seed } => {
                let window = self.policies[self.current].longest_window();
                let longest = thousandths.map_or(3, |thousandths| window * thousandths / 1_000).max(1);
                for _ in 0..count {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let later = TimeStep::Later(1 + Micros::from(seed >> 33) % longest);
                    self.decide((op, later, CostChoice::Units(1 + Units::from(seed >> 62))))?;
                }
            }
            // After a change of shape, the contract leaves open which of several charges in a slot is refunded.
            Operation::Refund { .. } if self.has_several_shapes() => {}
            Operation::Refund { time_step, charge, offset, times, cost } => {
                let charged_at = (self.comparison.timeline.charge_time(charge) + offset).max(0);
                for _ in 0..times {
                    let request = self.request(cost);
                    let now = (self.time)(&self.comparison.timeline, time_step, &request.policy);
                    self.comparison.refund(&request, charged_at, now)?;
                }
            }
            Operation::SetMax(maxes) => {
                let is_gcra = self.policies[0].algorithm == ModelAlgorithm::Gcra;
                if !self.has_several_shapes() && (!is_gcra || self.sets_gcra_max) {
                    self.policies[0] = with_maxes(&self.policies[0], maxes);
                }
            }
            Operation::OtherShape => self.current = (self.current + 1) % self.policies.len(),
            Operation::Reset => self.comparison.reset(&self.request(CostChoice::Units(1)))?,
        }
        Ok(())
    }
}

/// The policy with other maxes. An explicit burst stays.
pub(crate) fn with_maxes(policy: &ModelPolicy, maxes: [Units; 3]) -> ModelPolicy {
    let default_burst = policy.limits.iter().all(|limit| limit.capacity == limit.max);
    let changed = |(limit, max): (&ModelLimit, Units)| {
        // A burst must not exceed the largest debt that can be stored at that max.
        let capacity = if default_burst { max } else { limit.capacity.min(MAX_STORED * max / limit.window) };
        ModelLimit { max, capacity, ..*limit }
    };
    ModelPolicy { limits: policy.limits.iter().zip(maxes).map(changed).collect(), ..policy.clone() }
}
