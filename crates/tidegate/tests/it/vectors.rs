//! The conformance vectors: the model and the store that is tested reproduce every one.
//!
//! Some go beyond what the contract calls in range, with a cost of 10^12 + 1 or a max of 2 * 10^12; the arithmetic holds
//! there, too.

use std::fmt::Debug;

use serde::Deserialize;

use crate::gate::{Gate, Tested};
use crate::model::{Algo, Answer, Cap, Op, Part, Rule, Verdict, World};

#[derive(Deserialize)]
struct Trace {
    name: String,
    algorithm: String,
    limits: Vec<VectorLimit>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct VectorLimit {
    max: u64,
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

impl Step {
    fn request(&self) -> Option<(Op, &Request)> {
        match self {
            Self::Check(request) => Some((Op::Check, request)),
            Self::Peek(request) => Some((Op::Peek, request)),
            Self::Charge(request) => Some((Op::Charge, request)),
            Self::Refund { .. } | Self::SetMax { .. } => None,
        }
    }
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
struct Expected {
    reason: String,
    remaining: u64,
    retry_after_us: Option<u64>,
    reset_after_us: u64,
}

impl From<Answer> for Expected {
    fn from(answer: Answer) -> Self {
        let reason = match answer.verdict {
            Verdict::Allowed => "allowed",
            Verdict::Limited => "limited",
            Verdict::Impossible => "impossible",
            Verdict::Shadow => "shadow",
            Verdict::Banned => "banned",
        };
        let number = |value: i128| u64::try_from(value).expect("a number of the vectors fits 64 bits");
        Self {
            reason: reason.to_owned(),
            remaining: number(answer.remaining),
            retry_after_us: answer.retry_after.map(number),
            reset_after_us: number(answer.reset_after),
        }
    }
}

const FILES: [&str; 5] = ["sliding_log", "sliding_counter", "sliding_buckets", "fixed_window", "gcra"];

fn traces(file: &str) -> Vec<Trace> {
    let path = format!("{}/tests/vectors/{file}.json", concat!(env!("CARGO_MANIFEST_DIR"), "/../tidegate"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Fails with the place in the vectors, what they expect and what came.
fn same<T: Debug + PartialEq>(file: &str, trace: &Trace, step: usize, expected: &T, got: &T) {
    let name = &trace.name;
    assert!(expected == got, "{file}.json, {name}, step {step}:\n  expected {expected:?}\n  got      {got:?}");
}

fn rule(trace: &Trace) -> Rule {
    let algo = match trace.algorithm.as_str() {
        "sliding_log" => Algo::Log,
        "sliding_counter" => Algo::Counter,
        "sliding_buckets" => Algo::Buckets(trace.limits[0].buckets.expect("sliding_buckets has buckets").into()),
        "fixed_window" => Algo::Fixed,
        "gcra" => Algo::Gcra,
        other => panic!("{}: unknown algorithm {other}", trace.name),
    };
    let cap = |limit: &VectorLimit| Cap {
        max: limit.max.into(),
        window: limit.window_us.into(),
        capacity: limit.burst.unwrap_or(limit.max).into(),
    };
    Rule::new(algo, trace.limits.iter().map(cap).collect())
}

/// Replays a trace step by step.
fn replay(file: &str, trace: &Trace, gate: &mut impl Gate) {
    let mut rule = rule(trace);
    let part = |rule: &Rule, cost: u64| Part { name: (0, 0), rule: rule.clone(), cost: cost.into() };
    for (i, step) in trace.steps.iter().enumerate() {
        match step {
            Step::SetMax { max } => {
                for (cap, max) in rule.caps.iter_mut().zip(max) {
                    *cap = Cap::new((*max).into(), cap.window);
                }
            }
            Step::Refund { t_us, cost, charged_at_us, remaining, reset_after_us } => {
                let told = gate.refund(&part(&rule, *cost), (*charged_at_us).into(), (*t_us).into());
                let expected = ((*remaining).into(), (*reset_after_us).into());
                same(file, trace, i, &expected, &(told.remaining, told.reset_after));
            }
            Step::Check(_) | Step::Peek(_) | Step::Charge(_) => {
                let (op, request) = step.request().expect("one of the three");
                let answer = gate.decide(op, &part(&rule, request.cost), request.t_us.into());
                same(file, trace, i, &request.expected, &answer.into());
            }
        }
    }
}

fn replay_all<G: Gate + Default>() {
    let mut steps = 0;
    for file in FILES {
        for trace in &traces(file) {
            replay(file, trace, &mut G::default());
            steps += trace.steps.len();
        }
    }
    assert!(steps > 20_000, "vectors are missing: {steps} steps");
}

#[test]
fn the_model_reproduces_every_vector() {
    replay_all::<World>();
}

#[test]
fn the_store_reproduces_every_vector() {
    replay_all::<Tested>();
}
