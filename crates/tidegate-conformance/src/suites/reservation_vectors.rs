//! The vectors of reservations: traces of every operation, with the expected answer to each step.
//!
//! Ids are numbers in the order of the grants. The id 999 was never granted.

use serde::Deserialize;
use tidegate::Op;

use super::vectors::{Expected, Trace, assert_equal};
use crate::StoreUnderTest;
use crate::model::{
    Micros, Model, ModelDecision, ModelGrant, ModelHold, ModelLease, ModelLimit, ModelPolicy, ModelRefund,
    ModelRequest, ModelReservationKind, Units,
};
use crate::test_store::{ReservationStore, TestStore};

const TEXT: &str = include_str!("../../vectors/reservations.json");

#[derive(Deserialize)]
struct Step {
    #[serde(flatten)]
    operation: Operation,
    #[serde(default)]
    t_us: u64,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Operation {
    Check(Spend),
    Peek(Spend),
    Charge(Spend),
    Refund {
        cost: u64,
        charged_at_us: u64,
        remaining: u64,
        reset_after_us: u64,
    },
    SetMax {
        max: Vec<u64>,
    },
    Reserve(Reserve),
    Commit {
        id: u64,
        actual: u64,
        known: bool,
        #[serde(flatten)]
        expected: Expected,
    },
    Renew {
        id: u64,
        ttl_us: u64,
        known: bool,
        #[serde(flatten)]
        expected: Expected,
    },
    Lease(Lease),
    Settle {
        #[serde(flatten)]
        settle: Settle,
        #[serde(flatten)]
        expected: Expected,
    },
}

#[derive(Deserialize)]
struct Spend {
    cost: u64,
    #[serde(flatten)]
    expected: Expected,
}

#[derive(Deserialize)]
struct Reserve {
    cost: u64,
    ttl_us: u64,
    expires: Expires,
    id: Option<u64>,
    #[serde(flatten)]
    expected: Expected,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Expires {
    Released,
    Spent,
}

#[derive(Deserialize)]
struct Lease {
    asked: u64,
    least: u64,
    ttl_us: u64,
    settle: Option<Settle>,
    id: Option<u64>,
    granted: u64,
    #[serde(flatten)]
    expected: Expected,
}

#[derive(Clone, Copy, Deserialize)]
struct Settle {
    id: u64,
    spent: u64,
    known: bool,
}

/// What the vectors are replayed on: the model or a store.
trait Subject {
    fn make_unknown_id(&mut self, request: &ModelRequest, now: Micros);
    fn decide(&mut self, op: Op, request: &ModelRequest, now: Micros) -> ModelDecision;
    fn refund(&mut self, request: &ModelRequest, charged_at: Micros, now: Micros) -> ModelRefund;
    fn reserve(&mut self, request: &ModelRequest, hold: ModelHold, now: Micros) -> ModelDecision;
    fn commit(&mut self, request: &ModelRequest, id: u64, actual: Units, now: Micros) -> (ModelDecision, bool);
    fn renew(&mut self, request: &ModelRequest, id: u64, ttl: Micros, now: Micros) -> (ModelDecision, bool);
    fn lease(&mut self, request: &ModelRequest, lease: ModelLease, now: Micros) -> ModelGrant;
    fn settle(&mut self, request: &ModelRequest, id: u64, spent: Units, now: Micros) -> (ModelDecision, bool);
}

macro_rules! subject {
    ([$($generics:tt)*] $subject:ty, $decisions:ident, $make_unknown_id:expr) => {
        impl<$($generics)*> Subject for $subject {
            fn make_unknown_id(&mut self, request: &ModelRequest, now: Micros) {
                $make_unknown_id(self, request, now);
            }

            fn decide(&mut self, op: Op, request: &ModelRequest, now: Micros) -> ModelDecision {
                $decisions::decide(self, op, request, now)
            }

            fn refund(&mut self, request: &ModelRequest, charged_at: Micros, now: Micros) -> ModelRefund {
                $decisions::refund(self, request, charged_at, now)
            }

            fn reserve(&mut self, request: &ModelRequest, hold: ModelHold, now: Micros) -> ModelDecision {
                self.reserve(request, hold, now)
            }

            fn commit(&mut self, request: &ModelRequest, id: u64, actual: Units, now: Micros) -> (ModelDecision, bool) {
                self.commit(request, id, actual, now)
            }

            fn renew(&mut self, request: &ModelRequest, id: u64, ttl: Micros, now: Micros) -> (ModelDecision, bool) {
                self.renew(request, id, ttl, now)
            }

            fn lease(&mut self, request: &ModelRequest, lease: ModelLease, now: Micros) -> ModelGrant {
                self.lease(request, lease, now)
            }

            fn settle(&mut self, request: &ModelRequest, id: u64, spent: Units, now: Micros) -> (ModelDecision, bool) {
                self.settle(request, id, spent, now)
            }
        }
    };
}

subject!([] Model, Model, |_: &mut Model, _: &ModelRequest, _: Micros| {});
subject!([S: StoreUnderTest] ReservationStore<S>, TestStore, Self::make_unknown_id);

/// A replay of a trace.
struct Replay<'a, L> {
    trace: &'a Trace<Step>,
    policy: ModelPolicy,
    subject: L,
    grants: u64,
}

impl<L: Subject> Replay<'_, L> {
    fn step(&mut self, number: usize, step: &Step) {
        let now = step.t_us.into();
        let request = |cost: u64| ModelRequest::new(&self.policy, cost.into());
        let any = request(1);
        match &step.operation {
            Operation::Check(spend) => {
                let decision = self.subject.decide(Op::Check, &request(spend.cost), now);
                self.assert_decision(number, &spend.expected, decision);
            }
            Operation::Peek(spend) => {
                let decision = self.subject.decide(Op::Peek, &request(spend.cost), now);
                self.assert_decision(number, &spend.expected, decision);
            }
            Operation::Charge(spend) => {
                let decision = self.subject.decide(Op::Charge, &request(spend.cost), now);
                self.assert_decision(number, &spend.expected, decision);
            }
            Operation::Refund { cost, charged_at_us, remaining, reset_after_us } => {
                let refund = self.subject.refund(&request(*cost), (*charged_at_us).into(), now);
                let expected = ((*remaining).into(), (*reset_after_us).into());
                self.assert_equal(number, &expected, &(refund.remaining, refund.reset_after));
            }
            Operation::SetMax { max } => {
                for (limit, max) in self.policy.limits.iter_mut().zip(max) {
                    *limit = ModelLimit::new((*max).into(), limit.window);
                }
            }
            Operation::Reserve(Reserve { cost, ttl_us, expires, id, expected }) => {
                let kind = match expires {
                    Expires::Released => ModelReservationKind::ReleasedHold,
                    Expires::Spent => ModelReservationKind::SpentHold,
                };
                let hold = ModelHold { id: self.grants + 1, ttl: (*ttl_us).into(), kind };
                let decision = self.subject.reserve(&request(*cost), hold, now);
                self.assert_grant(number, *id, decision.charged_at.is_some());
                self.assert_decision(number, expected, decision);
            }
            Operation::Commit { id, actual, known, expected } => {
                let (decision, found) = self.subject.commit(&any, *id, (*actual).into(), now);
                self.assert_equal(number, known, &found);
                self.assert_decision(number, expected, decision);
            }
            Operation::Renew { id, ttl_us, known, expected } => {
                let (decision, found) = self.subject.renew(&any, *id, (*ttl_us).into(), now);
                self.assert_equal(number, known, &found);
                self.assert_decision(number, expected, decision);
            }
            Operation::Lease(Lease { asked, least, ttl_us, settle, id, granted, expected }) => {
                let lease = ModelLease {
                    id: self.grants + 1,
                    asked: (*asked).into(),
                    least: (*least).into(),
                    ttl: (*ttl_us).into(),
                    settle: settle.map(|settle| (settle.id, settle.spent.into())),
                };
                let grant = self.subject.lease(&any, lease, now);
                self.assert_grant(number, *id, grant.granted > 0);
                let expected_grant = ((*granted).into(), settle.map(|settle| settle.known));
                self.assert_equal(number, &expected_grant, &(grant.granted, grant.settled));
                self.assert_decision(number, expected, grant.decision);
            }
            Operation::Settle { settle, expected } => {
                let (decision, found) = self.subject.settle(&any, settle.id, settle.spent.into(), now);
                self.assert_equal(number, &settle.known, &found);
                self.assert_decision(number, expected, decision);
            }
        }
    }

    fn assert_decision(&self, step: usize, expected: &Expected, decision: ModelDecision) {
        self.assert_equal(step, expected, &decision.into());
    }

    /// Counts a grant, and compares its number with the expected id.
    fn assert_grant(&mut self, step: usize, expected: Option<u64>, is_granted: bool) {
        self.grants += u64::from(is_granted);
        self.assert_equal(step, &expected, &is_granted.then_some(self.grants));
    }

    fn assert_equal<T: std::fmt::Debug + PartialEq>(&self, step: usize, expected: &T, got: &T) {
        assert_equal("reservations", &self.trace.name, step, &self.policy, expected, got);
    }
}

fn replay_all<L: Subject>(new: fn(Micros) -> L) {
    let traces: Vec<Trace<Step>> = serde_json::from_str(TEXT).expect("the vectors are valid");
    for (seed, trace) in (0..).zip(&traces) {
        let mut replay = Replay { trace, policy: trace.policy(), subject: new(seed), grants: 0 };
        let start = trace.steps.iter().map(|step| step.t_us).max().unwrap_or(0);
        replay.subject.make_unknown_id(&ModelRequest::new(&trace.policy(), 1), start.into());
        for (number, step) in trace.steps.iter().enumerate() {
            replay.step(number, step);
        }
    }
    let steps: usize = traces.iter().map(|trace| trace.steps.len()).sum();
    assert!(steps > 7_000, "there are only {steps} steps: vectors are missing");
}

/// Replays every vector of reservations.
///
/// # Panics
/// If an answer of the store differs from the vector.
pub fn the_store_reproduces_every_vector_of_reservations<S: StoreUnderTest>() {
    replay_all(ReservationStore::<S>::new);
}

#[cfg(test)]
#[test]
fn the_model_reproduces_every_vector_of_reservations() {
    replay_all(|_| Model::default());
}
