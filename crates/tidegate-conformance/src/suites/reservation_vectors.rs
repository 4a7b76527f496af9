//! The vectors of reservations: traces of every operation, with the expected answer to each step.
//!
//! Ids are numbers in the order of the grants. The id 999 was never granted.

use serde::Deserialize;
use tidegate::Op;

use super::vectors::{Expected, Trace, assert_equal};
use crate::model::{
    Model, ModelDecision, ModelHold, ModelLease, ModelLimit, ModelPolicy, ModelRequest, ModelReservationKind,
};

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

/// A replay of a trace with the model.
struct Replay<'a> {
    trace: &'a Trace<Step>,
    policy: ModelPolicy,
    model: Model,
    grants: u64,
}

impl Replay<'_> {
    fn step(&mut self, number: usize, step: &Step) {
        let now = step.t_us.into();
        let request = |cost: u64| ModelRequest::new(&self.policy, cost.into());
        let any = request(1);
        match &step.operation {
            Operation::Check(spend) => {
                let decision = self.model.decide(Op::Check, &request(spend.cost), now);
                self.assert_decision(number, &spend.expected, decision);
            }
            Operation::Peek(spend) => {
                let decision = self.model.decide(Op::Peek, &request(spend.cost), now);
                self.assert_decision(number, &spend.expected, decision);
            }
            Operation::Charge(spend) => {
                let decision = self.model.decide(Op::Charge, &request(spend.cost), now);
                self.assert_decision(number, &spend.expected, decision);
            }
            Operation::Refund { cost, charged_at_us, remaining, reset_after_us } => {
                let refund = self.model.refund(&request(*cost), (*charged_at_us).into(), now);
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
                let decision = self.model.reserve(&request(*cost), hold, now);
                self.assert_grant(number, *id, decision.charged_at.is_some());
                self.assert_decision(number, expected, decision);
            }
            Operation::Commit { id, actual, known, expected } => {
                let (decision, found) = self.model.commit(&any, *id, (*actual).into(), now);
                self.assert_equal(number, known, &found);
                self.assert_decision(number, expected, decision);
            }
            Operation::Renew { id, ttl_us, known, expected } => {
                let (decision, found) = self.model.renew(&any, *id, (*ttl_us).into(), now);
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
                let grant = self.model.lease(&any, lease, now);
                self.assert_grant(number, *id, grant.granted > 0);
                let expected_grant = ((*granted).into(), settle.map(|settle| settle.known));
                self.assert_equal(number, &expected_grant, &(grant.granted, grant.settled));
                self.assert_decision(number, expected, grant.decision);
            }
            Operation::Settle { settle, expected } => {
                let (decision, found) = self.model.settle(&any, settle.id, settle.spent.into(), now);
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

#[test]
fn the_model_reproduces_every_vector_of_reservations() {
    let traces: Vec<Trace<Step>> = serde_json::from_str(TEXT).expect("the vectors are valid");
    for trace in &traces {
        let mut replay = Replay { trace, policy: trace.policy(), model: Model::default(), grants: 0 };
        for (number, step) in trace.steps.iter().enumerate() {
            replay.step(number, step);
        }
    }
    let steps: usize = traces.iter().map(|trace| trace.steps.len()).sum();
    assert!(steps > 7_000, "there are only {steps} steps: vectors are missing");
}
