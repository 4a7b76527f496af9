//! Hundreds of requests for one key: bursts of charges, pauses of about a window, refunds of all kinds and changes of
//! shape. Every answer equals that of the model.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use tidegate::Op;

use crate::comparison::{COMPARED, Comparison};
use crate::generators::{self, CostChoice, TimeStep};
use crate::model::{Micros, ModelAlgorithm, ModelLimit, ModelPolicy, ModelRequest, Units};
use crate::property::check;
use crate::{StoreUnderTest, settings};

/// The largest time between two charges of a burst.
#[derive(Clone, Copy, Debug)]
enum Gap {
    FewMicros,
    /// A part of the longest window, in thousandths.
    WindowThousandths(i128),
}

#[derive(Clone, Debug)]
enum Operation {
    Decide(Op, TimeStep, CostChoice),
    /// Many requests at different times.
    Burst {
        op: Op,
        count: usize,
        gap: Gap,
        seed: u64,
    },
    /// A pause of about a window, then several requests shortly after each other.
    Idle {
        time_step: TimeStep,
        then: Vec<(Op, TimeStep, CostChoice)>,
    },
    Refund {
        time_step: TimeStep,
        charge: usize,
        offset: Micros,
        times: usize,
        cost: CostChoice,
    },
    SetMax([Units; 3]),
    OtherShape,
    Reset,
}

fn burst() -> impl Strategy<Value = Operation> {
    let op = prop_oneof![3 => Just(Op::Charge), 1 => Just(Op::Check)];
    let count = prop_oneof![12 => 2..30usize, 4 => 30..150usize, 1 => 300..800usize];
    let thousandths = prop::sample::select(vec![1, 4, 15, 60]).prop_map(Gap::WindowThousandths);
    let gap = prop_oneof![2 => Just(Gap::FewMicros), 3 => thousandths];
    (op, count, gap, any::<u64>()).prop_map(|(op, count, gap, seed)| Operation::Burst { op, count, gap, seed })
}

fn idle() -> impl Strategy<Value = Operation> {
    let soon = prop_oneof![
        2 => Just(TimeStep::Same),
        3 => (1..=3i128).prop_map(TimeStep::Later),
        2 => generators::time_step(),
    ];
    let op = prop_oneof![3 => Just(Op::Check), 2 => Just(Op::Charge), 1 => Just(Op::Peek)];
    let then = prop::collection::vec((op, soon, generators::cost()), 1..6);
    (generators::idle_time_step(), then).prop_map(|(time_step, then)| Operation::Idle { time_step, then })
}

fn refund() -> impl Strategy<Value = Operation> {
    // The newest charge, one of the last, or one far back.
    let charge = prop_oneof![2 => Just(0usize), 3 => 0..8usize, 2 => 0..400usize];
    let offset = prop_oneof![6 => Just(0i128), 1 => -1..=1i128];
    (generators::time_step(), charge, offset, 1..4usize, generators::cost()).prop_map(
        |(time_step, charge, offset, times, cost)| Operation::Refund { time_step, charge, offset, times, cost },
    )
}

fn maxes() -> impl Strategy<Value = [Units; 3]> {
    let max = || prop_oneof![3 => 1..=12i128, 3 => 20..=300i128, 2 => 600..=3_000i128];
    [max(), max(), max()]
}

fn operation() -> impl Strategy<Value = Operation> {
    let decide = |time_step| {
        (generators::op(), time_step, generators::cost())
            .prop_map(|(op, time_step, cost)| Operation::Decide(op, time_step, cost))
    };
    prop_oneof![
        140 => decide(generators::time_step().boxed()),
        6 => decide(generators::any_time_step().boxed()),
        12 => burst(),
        20 => idle(),
        40 => refund(),
        6 => maxes().prop_map(Operation::SetMax),
        12 => Just(Operation::OtherShape),
        1 => Just(Operation::Reset),
    ]
}

/// Policies, most of whose states are long lists.
fn policy() -> impl Strategy<Value = ModelPolicy> {
    let buckets = prop::sample::select(vec![7i128, 60, 365, 1_000]).prop_map(ModelAlgorithm::SlidingBuckets);
    let algorithm = prop_oneof![6 => Just(ModelAlgorithm::SlidingLog), 3 => buckets, 1 => generators::algorithm()];
    (generators::policy_of(algorithm), maxes()).prop_map(|(policy, maxes)| with_maxes(&policy, maxes))
}

/// The policy with other maxes. A gcra policy stays, because its bursts depend on the max.
fn with_maxes(policy: &ModelPolicy, maxes: [Units; 3]) -> ModelPolicy {
    let changed = |(limit, max): (&ModelLimit, Units)| match policy.algorithm {
        ModelAlgorithm::Gcra => *limit,
        _ => ModelLimit::new(max, limit.window),
    };
    ModelPolicy { limits: policy.limits.iter().zip(maxes).map(changed).collect(), ..policy.clone() }
}

/// One policy, or two shapes of one limit between which a history alternates.
fn policies() -> impl Strategy<Value = Vec<ModelPolicy>> {
    let is_gcra = |policy: &ModelPolicy| policy.algorithm == ModelAlgorithm::Gcra;
    let two = generators::single_limit_policies(generators::algorithm(), 2)
        .prop_filter("the suite changed_limits covers a debt under another window", move |policies| {
            !policies.iter().all(is_gcra)
        })
        .prop_filter("the debt of a burst must not saturate", move |policies| {
            policies.iter().all(|policy| !is_gcra(policy) || policy.storable() >= 1_000_000)
        });
    prop_oneof![3 => policy().prop_map(|policy| vec![policy]), 1 => two]
}

struct History<S> {
    comparison: Comparison<S>,
    policies: Vec<ModelPolicy>,
    current: usize,
}

impl<S: StoreUnderTest> History<S> {
    fn alternates(&self) -> bool {
        self.policies.len() > 1
    }

    fn request(&self, cost: CostChoice) -> ModelRequest {
        let policy = &self.policies[self.current];
        let mut cost = cost.units(policy, self.comparison.timeline.last.as_ref());
        // Few enough units that a long history saturates no shape.
        if self.alternates() {
            cost = cost.min(20);
        }
        if policy.algorithm == ModelAlgorithm::Gcra {
            cost = cost.min(policy.storable() / 64).max(1);
        }
        ModelRequest::new(policy, cost)
    }

    fn decide(&mut self, op: Op, time_step: TimeStep, cost: CostChoice) -> Result<(), TestCaseError> {
        let (request, timeline) = (self.request(cost), &self.comparison.timeline);
        // Two alternating shapes read a time that is far behind in two ways.
        let now = if self.alternates() {
            timeline.time_not_far_behind(time_step, &request.policy)
        } else {
            timeline.time(time_step, &request.policy)
        };
        self.comparison.decide(op, &request, now)
    }

    fn apply(&mut self, operation: Operation) -> Result<(), TestCaseError> {
        match operation {
            Operation::Decide(op, time_step, cost) => self.decide(op, time_step, cost)?,
            Operation::Burst { op, count, gap, mut seed } => {
                let longest = match gap {
                    Gap::FewMicros => 3,
                    Gap::WindowThousandths(n) => self.policies[self.current].longest_window() * n / 1_000,
                };
                for _ in 0..count {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let later = 1 + Micros::from(seed >> 33) % longest.max(1);
                    self.decide(op, TimeStep::Later(later), CostChoice::Units(1 + Units::from(seed >> 62)))?;
                }
            }
            Operation::Idle { time_step, then } => {
                self.decide(Op::Check, time_step, CostChoice::Units(1))?;
                for (op, time_step, cost) in then {
                    self.decide(op, time_step, cost)?;
                }
            }
            // After a change of shape, the contract leaves open which of several charges in a slot is refunded.
            Operation::Refund { .. } if self.alternates() => {}
            Operation::Refund { time_step, charge, offset, times, cost } => {
                let charged_at = (self.comparison.timeline.charge_time(charge) + offset).max(0);
                for _ in 0..times {
                    let request = self.request(cost);
                    let now = self.comparison.timeline.time(time_step, &request.policy);
                    self.comparison.refund(&request, charged_at, now)?;
                }
            }
            Operation::SetMax(maxes) => {
                if !self.alternates() {
                    self.policies[0] = with_maxes(&self.policies[0], maxes);
                }
            }
            Operation::OtherShape => self.current = (self.current + 1) % self.policies.len(),
            Operation::Reset => self.comparison.reset(&self.request(CostChoice::Units(1)))?,
        }
        Ok(())
    }
}

type Case = (Vec<ModelPolicy>, Micros, Vec<Operation>);

fn run<S: StoreUnderTest>((policies, start, operations): Case) -> Result<(), TestCaseError> {
    let mut history = History { comparison: Comparison::<S>::new(start), policies, current: 0 };
    history.comparison.inspect_every = 9;
    for operation in operations {
        history.apply(operation)?;
    }
    Ok(())
}

fn long_history() -> impl Strategy<Value = Case> {
    (policies(), generators::start_time(), prop::collection::vec(operation(), settings::long_steps()))
}

/// Compares histories of 300 operations and more.
///
/// # Panics
/// If the store breaks this promise.
pub fn long_histories_equal_the_model<S: StoreUnderTest>() {
    let promise = "every answer in a long history equals that of the model";
    check::<S, _>(promise, settings::long_config(24), &long_history(), run::<S>);
}

/// Compares shorter histories with more pauses.
///
/// # Panics
/// If the store breaks this promise.
pub fn histories_with_bursts_and_pauses_equal_the_model<S: StoreUnderTest>() {
    let operations = prop::collection::vec(prop_oneof![3 => operation(), 1 => idle()], settings::steps(30));
    let cases = (policies(), generators::start_time(), operations);
    let promise = "every answer in a history with bursts and pauses equals that of the model";
    check::<S, _>(promise, settings::config(300), &cases, run::<S>);
}

/// Compares `TIDEGATE_DECISIONS` decisions of long histories, by default a million. Takes many minutes.
///
/// Four threads run histories. Their seeds are consecutive numbers from `PROPTEST_RNG_SEED`, by default 20261117.
///
/// # Panics
/// If the store breaks this promise.
pub fn a_million_decisions_equal_the_model<S: StoreUnderTest>() {
    let wanted = settings::number("TIDEGATE_DECISIONS").unwrap_or(1_000_000);
    let first = u64::try_from(settings::number("PROPTEST_RNG_SEED").unwrap_or(20_261_117)).expect("64 bits");
    let (before, next) = (COMPARED.load(Relaxed), AtomicU64::new(first));
    let compared = || COMPARED.load(Relaxed) - before;
    let work = || {
        while compared() < wanted {
            let seed = next.fetch_add(1, Relaxed);
            let config = Config { rng_seed: RngSeed::Fixed(seed), cases: 4, ..settings::long_config(4) };
            let promise = format!("every answer in the long histories of seed {seed} equals that of the model");
            check::<S, _>(&promise, config, &long_history(), run::<S>);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let seeds = next.load(Relaxed) - first;
    println!("{} decisions of {} histories, {seeds} seeds from {first} on: no difference", compared(), 4 * seeds);
}
