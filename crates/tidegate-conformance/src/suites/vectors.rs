//! The conformance vectors: traces with the expected answer to each step.
//!
//! Some exceed the range of the contract, with a cost of 10^12 + 1 or a max of 2 * 10^12. The arithmetic is exact there,
//! too.

use std::fmt::Debug;

use serde::Deserialize;
use tidegate::Op;

use crate::StoreUnderTest;
use crate::model::{Micros, ModelAlgorithm, ModelDecision, ModelLimit, ModelPolicy, ModelRefund, ModelRequest};
use crate::test_store::TestStore;

/// The files of the vectors: the name of the algorithm, and the JSON text.
pub const FILES: [(&str, &str); 5] = [
    ("sliding_log", include_str!("../../vectors/sliding_log.json")),
    ("sliding_counter", include_str!("../../vectors/sliding_counter.json")),
    ("sliding_buckets", include_str!("../../vectors/sliding_buckets.json")),
    ("fixed_window", include_str!("../../vectors/fixed_window.json")),
    ("gcra", include_str!("../../vectors/gcra.json")),
];

#[derive(Deserialize)]
pub(super) struct Trace<S> {
    pub(super) name: String,
    algorithm: String,
    limits: Vec<VectorLimit>,
    pub(super) steps: Vec<S>,
}

#[derive(Deserialize)]
struct VectorLimit {
    max: u64,
    /// A limit on the units in flight has none.
    #[serde(default)]
    window_us: u64,
    buckets: Option<u64>,
    burst: Option<u64>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Step {
    Check(Request),
    Peek(Request),
    Charge(Request),
    Refund { t_us: u64, cost: u64, charged_at_us: u64, remaining: u64, reset_after_us: u64 },
    SetMax { max: Vec<u64> },
}

#[derive(Deserialize)]
struct Request {
    t_us: u64,
    cost: u64,
    #[serde(flatten)]
    expected: Expected,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
pub(super) struct Expected {
    reason: String,
    remaining: u64,
    retry_after_us: Option<u64>,
    reset_after_us: u64,
}

impl From<ModelDecision> for Expected {
    fn from(decision: ModelDecision) -> Self {
        let number = |value: i128| u64::try_from(value).expect("a number of the vectors fits 64 bits");
        Self {
            reason: decision.reason.to_string(),
            remaining: number(decision.remaining),
            retry_after_us: decision.retry_after.map(number),
            reset_after_us: number(decision.reset_after),
        }
    }
}

impl<S> Trace<S> {
    pub(super) fn policy(&self) -> ModelPolicy {
        let algorithm = match self.algorithm.as_str() {
            "sliding_log" => ModelAlgorithm::SlidingLog,
            "sliding_counter" => ModelAlgorithm::SlidingCounter,
            "sliding_buckets" => {
                let buckets = self.limits[0].buckets.expect("sliding_buckets has buckets");
                ModelAlgorithm::SlidingBuckets(buckets.into())
            }
            "fixed_window" => ModelAlgorithm::FixedWindow,
            "gcra" => ModelAlgorithm::Gcra,
            other => panic!("{}: unknown algorithm {other}", self.name),
        };
        let limit = |limit: &VectorLimit| ModelLimit {
            max: limit.max.into(),
            window: limit.window_us.into(),
            capacity: limit.burst.unwrap_or(limit.max).into(),
        };
        ModelPolicy::new(algorithm, self.limits.iter().map(limit).collect())
    }
}

type Decide<L> = fn(&mut L, Op, &ModelRequest, Micros) -> ModelDecision;
type Refund<L> = fn(&mut L, &ModelRequest, Micros, Micros) -> ModelRefund;

/// Replays one trace with the operations of the model or of a store.
fn replay<L>(file: &str, trace: &Trace<Step>, mut limiter: L, decide: Decide<L>, refund: Refund<L>) {
    let mut policy = trace.policy();
    for (i, step) in trace.steps.iter().enumerate() {
        let (op, request) = match step {
            Step::Check(request) => (Op::Check, request),
            Step::Peek(request) => (Op::Peek, request),
            Step::Charge(request) => (Op::Charge, request),
            Step::Refund { t_us, cost, charged_at_us, remaining, reset_after_us } => {
                let request = ModelRequest::new(&policy, (*cost).into());
                let refund = refund(&mut limiter, &request, (*charged_at_us).into(), (*t_us).into());
                let expected = ((*remaining).into(), (*reset_after_us).into());
                assert_equal(file, &trace.name, i, &policy, &expected, &(refund.remaining, refund.reset_after));
                continue;
            }
            Step::SetMax { max } => {
                for (limit, max) in policy.limits.iter_mut().zip(max) {
                    *limit = ModelLimit::new((*max).into(), limit.window);
                }
                continue;
            }
        };
        let model_request = ModelRequest::new(&policy, request.cost.into());
        let decision = decide(&mut limiter, op, &model_request, request.t_us.into());
        assert_equal(file, &trace.name, i, &policy, &request.expected, &decision.into());
    }
}

pub(super) fn assert_equal<T: Debug + PartialEq>(
    file: &str,
    name: &str,
    step: usize,
    policy: &ModelPolicy,
    expected: &T,
    got: &T,
) {
    assert!(
        expected == got,
        "broken promise: every vector is reproduced\n{file}.json, {name}, step {step}, under {policy:?}\n  expected: {expected:?}\n  got:      {got:?}"
    );
}

fn replay_all<L>(new: fn(Micros) -> L, decide: Decide<L>, refund: Refund<L>) {
    let mut steps = 0;
    for (file, text) in FILES {
        let traces: Vec<Trace<Step>> =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{file}.json: {error}"));
        for (seed, trace) in (0..).zip(&traces) {
            replay(file, trace, new(seed), decide, refund);
            steps += trace.steps.len();
        }
    }
    assert!(steps > 20_000, "there are only {steps} steps: vectors are missing");
}

/// Replays every vector.
///
/// # Panics
/// If an answer of the store differs from the vector.
pub fn the_store_reproduces_every_vector<S: StoreUnderTest>() {
    replay_all(
        TestStore::<S>::new,
        |store, op, request, now| store.decide(op, request, now),
        |store, request, charged_at, now| store.refund(request, charged_at, now),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    #[test]
    fn the_model_reproduces_every_vector() {
        replay_all(|_| Model::default(), Model::decide, Model::refund);
    }
}
