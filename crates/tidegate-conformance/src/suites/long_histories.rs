//! Hundreds of requests for one key: bursts of charges, pauses of about a window, refunds of all kinds and changes of
//! shape. Every answer equals that of the model.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use tidegate::Op;

use crate::comparison::COMPARED;
use crate::generators::{self, CostChoice, TimeStep, Timeline};
use crate::history::{History, Operation, with_maxes};
use crate::model::{Micros, ModelAlgorithm, ModelPolicy, Units};
use crate::property::check;
use crate::{StoreUnderTest, settings};

fn burst() -> impl Strategy<Value = Operation> {
    let op = prop_oneof![3 => Just(Op::Charge), 1 => Just(Op::Check)];
    let count = prop_oneof![12 => 2..30usize, 4 => 30..150usize, 1 => 300..800usize];
    let thousandths = prop_oneof![2 => Just(None), 3 => prop::sample::select(vec![1, 4, 15, 60]).prop_map(Some)];
    (op, count, thousandths, any::<u64>()).prop_map(|(op, count, thousandths, seed)| Operation::Burst {
        op,
        count,
        thousandths,
        seed,
    })
}

/// A pause of about a window, then several requests shortly after each other.
fn idle() -> impl Strategy<Value = Operation> {
    let soon = prop_oneof![
        2 => Just(TimeStep::Same),
        3 => (1..=3i128).prop_map(TimeStep::Later),
        2 => generators::time_step(),
    ];
    let op = prop_oneof![3 => Just(Op::Check), 2 => Just(Op::Charge), 1 => Just(Op::Peek)];
    let then = prop::collection::vec((op, soon, generators::cost()), 1..6);
    (generators::idle_time_step(), then).prop_map(|(time_step, mut requests)| {
        requests.insert(0, (Op::Check, time_step, CostChoice::Units(1)));
        Operation::Requests(requests)
    })
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
    let request = |time_step| {
        (generators::op(), time_step, generators::cost()).prop_map(|request| Operation::Requests(vec![request]))
    };
    prop_oneof![
        140 => request(generators::time_step().boxed()),
        6 => request(generators::any_time_step().boxed()),
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
    // A gcra policy keeps its maxes, because its bursts depend on them.
    (generators::policy_of(algorithm), maxes()).prop_map(|(policy, maxes)| match policy.algorithm {
        ModelAlgorithm::Gcra => policy,
        _ => with_maxes(&policy, maxes),
    })
}

/// One policy, or two shapes of one limit between which a history alternates.
fn policies() -> impl Strategy<Value = Vec<ModelPolicy>> {
    let two = generators::two_policies().prop_filter("the debt of a burst must not saturate", |policies| {
        policies.iter().all(|policy| policy.algorithm != ModelAlgorithm::Gcra || policy.storable() >= 1_000_000)
    });
    prop_oneof![3 => policy().prop_map(|policy| vec![policy]), 1 => two]
}

type Case = (Vec<ModelPolicy>, Micros, Vec<Operation>);

/// Few enough units that a long history does not saturate a debt.
fn max_cost(policy: &ModelPolicy) -> Units {
    if policy.algorithm == ModelAlgorithm::Gcra { (policy.storable() / 64).max(1) } else { Units::MAX }
}

fn run<S: StoreUnderTest>((policies, start, operations): Case) -> Result<(), TestCaseError> {
    let alternates = policies.len() > 1;
    let mut history = History::<S> { max_cost, ..History::new(policies, start) };
    if alternates {
        // Few enough units that no shape saturates. Two shapes read a time that is far behind in two ways.
        history.max_cost = |policy| max_cost(policy).min(20);
        history.time = Timeline::time_not_far_behind;
    }
    history.comparison.inspect_every = 9;
    history.run(operations)
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
