//! Instructions of one decision, counted by callgrind. No clock is read, and no other thread runs.
//!
//! Every benchmark makes [`DECISIONS`] decisions of one kind, by which the counts are divided. Filling the store and
//! building keys is not counted. Decisions with reservations are in another program, because every caller in a program
//! changes how the others are compiled.
//!
//! Run it with `cargo run --release -p tidegate-instructions`.

#![allow(missing_docs, reason = "gungraun's macros make public items")]

use std::hint::black_box;
use std::time::Duration;

use gungraun::prelude::*;
use tidegate::{Algorithm, Buckets, Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};
use tidegate_instructions::DECISIONS;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const MILLISECOND: u64 = 1_000;
const START: u64 = 1_700_000_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Allowed,
    Denied,
}
use Outcome::{Allowed, Denied};

/// The decisions that are counted.
struct Case {
    store: MemoryStore,
    policy: Policy,
    keys: Vec<Key<'static>>,
    cost: Cost,
    /// The time of the next request, in microseconds.
    now: u64,
    /// The time between two requests, in microseconds.
    step: u64,
    expected: Outcome,
    allowed: usize,
}

impl Case {
    /// Every decision is about the same key.
    fn known_key(policy: Policy, expected: Outcome) -> Self {
        let keys = vec!["user:00000001"; usize::from(DECISIONS)];
        Self {
            store: MemoryStore::default(),
            policy,
            keys: keys.into_iter().map(key).collect(),
            cost: Cost::ONE,
            now: START,
            step: MILLISECOND,
            expected,
            allowed: 0,
        }
    }

    /// Requests that came before those that are counted.
    fn after(mut self, requests: u64, cost: u64, step: u64) -> Self {
        for _ in 0..requests {
            self.spend_once(cost);
            self.now += step;
        }
        self
    }

    fn spend_once(&self, cost: u64) {
        let cost = Cost::new(cost).expect("a valid cost");
        let now = Timestamp::from_micros(self.now);
        let decision = self.store.decide(Op::Check, &self.policy, &self.keys[0], cost, now);
        assert!(decision.is_allowed(), "what fills the store passes");
    }

    fn run(mut self) -> Self {
        for key in &self.keys {
            let now = Timestamp::from_micros(self.now);
            let decision = self.store.decide(Op::Check, &self.policy, key, self.cost, now);
            self.allowed += usize::from(black_box(decision).is_allowed());
            self.now += self.step;
        }
        self
    }

    /// Counts mean nothing if the decisions were not of the kind that the name says.
    fn verify(self) {
        let expected = if self.expected == Allowed { usize::from(DECISIONS) } else { 0 };
        assert_eq!(self.allowed, expected);
    }
}

fn key(text: &'static str) -> Key<'static> {
    Key::new(text).expect("a valid key")
}

fn limit(max: u64, window: Duration) -> Limit {
    Limit::new(max, window).expect("a valid limit")
}

fn policy<const N: usize>(limits: [Limit; N]) -> Policy {
    Policy::new("bench", limits).expect("a valid policy")
}

fn ten_buckets() -> Algorithm {
    Algorithm::SlidingBuckets(Buckets::new(10).expect("ten is a number of buckets"))
}

fn known_key_case(algorithm: Algorithm, outcome: Outcome) -> Case {
    let limit = match outcome {
        Allowed => limit(1_000_000, MINUTE),
        Denied => limit(1, HOUR),
    };
    let policy = policy([limit]).with_algorithm(algorithm);
    Case::known_key(policy, outcome).after(1, 1, MILLISECOND)
}

/// A key with `entries` in the minute before now: decisions slide them on by one each, or meet them all.
fn filled_case(policy: Policy, entries: u64, entry_cost: u64, outcome: Outcome) -> Case {
    let spacing = 60_000 * MILLISECOND / entries;
    let case = Case::known_key(policy, outcome);
    match outcome {
        Allowed => Case { step: spacing, ..case.after(entries, entry_cost, spacing) },
        Denied => Case { step: 1, ..case.after(entries, entry_cost, spacing / 2) },
    }
}

fn log_case(entries: u64, cost: u64, outcome: Outcome) -> Case {
    let (max, entry_cost) = match outcome {
        Allowed => (1_000_000_000, cost),
        Denied => {
            let entry_cost = (2 * cost / entries).max(1);
            (entries * entry_cost, entry_cost)
        }
    };
    let case = filled_case(policy([limit(max, MINUTE)]), entries, entry_cost, outcome);
    Case { cost: Cost::new(cost).expect("a valid cost"), ..case }
}

fn two_limits_case(entries: u64, outcome: Outcome) -> Case {
    let per_minute = if outcome == Allowed { 2 * entries } else { entries };
    let limits = [limit(10_000, Duration::from_secs(1)), limit(per_minute, MINUTE)];
    filled_case(policy(limits), entries, 1, outcome)
}

/// Every decision is the first of its key; the store starts empty, so growing is part of it.
fn new_key_case(algorithm: Algorithm) -> Case {
    let policy = policy([limit(100, MINUTE)]).with_algorithm(algorithm);
    let texts = (0..usize::from(DECISIONS)).map(|number| &*format!("user:{number:08}").leak());
    Case { keys: texts.map(key).collect(), ..Case::known_key(policy, Allowed) }
}

#[library_benchmark(teardown = Case::verify)]
#[bench::sliding_log_allowed(known_key_case(Algorithm::SlidingLog, Allowed))]
#[bench::sliding_log_denied(known_key_case(Algorithm::SlidingLog, Denied))]
#[bench::sliding_counter_allowed(known_key_case(Algorithm::SlidingCounter, Allowed))]
#[bench::sliding_counter_denied(known_key_case(Algorithm::SlidingCounter, Denied))]
#[bench::sliding_buckets_10_allowed(known_key_case(ten_buckets(), Allowed))]
#[bench::sliding_buckets_10_denied(known_key_case(ten_buckets(), Denied))]
#[bench::fixed_window_allowed(known_key_case(Algorithm::FixedWindow, Allowed))]
#[bench::fixed_window_denied(known_key_case(Algorithm::FixedWindow, Denied))]
#[bench::gcra_allowed(known_key_case(Algorithm::Gcra(None), Allowed))]
#[bench::gcra_denied(known_key_case(Algorithm::Gcra(None), Denied))]
fn known_key(case: Case) -> Case {
    case.run()
}

#[library_benchmark(teardown = Case::verify)]
#[bench::entries_10_cost_1_allowed(log_case(10, 1, Allowed))]
#[bench::entries_10_cost_1_denied(log_case(10, 1, Denied))]
#[bench::entries_10_cost_5000_allowed(log_case(10, 5_000, Allowed))]
#[bench::entries_10_cost_5000_denied(log_case(10, 5_000, Denied))]
#[bench::entries_100000_cost_1_allowed(log_case(100_000, 1, Allowed))]
#[bench::entries_100000_cost_1_denied(log_case(100_000, 1, Denied))]
#[bench::entries_100000_cost_5000_allowed(log_case(100_000, 5_000, Allowed))]
#[bench::entries_100000_cost_5000_denied(log_case(100_000, 5_000, Denied))]
fn sliding_log(case: Case) -> Case {
    case.run()
}

#[library_benchmark(teardown = Case::verify)]
#[bench::entries_10_allowed(two_limits_case(10, Allowed))]
#[bench::entries_10_denied(two_limits_case(10, Denied))]
#[bench::entries_100000_allowed(two_limits_case(100_000, Allowed))]
#[bench::entries_100000_denied(two_limits_case(100_000, Denied))]
fn two_limits(case: Case) -> Case {
    case.run()
}

#[library_benchmark(teardown = Case::verify)]
#[bench::sliding_log(new_key_case(Algorithm::SlidingLog))]
#[bench::sliding_counter(new_key_case(Algorithm::SlidingCounter))]
#[bench::sliding_buckets_10(new_key_case(ten_buckets()))]
#[bench::fixed_window(new_key_case(Algorithm::FixedWindow))]
#[bench::gcra(new_key_case(Algorithm::Gcra(None)))]
fn new_key(case: Case) -> Case {
    case.run()
}

library_benchmark_group!(name = decision, benchmarks = [known_key, sliding_log, two_limits, new_key]);

main!(library_benchmark_groups = decision);
