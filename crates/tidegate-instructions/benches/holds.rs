//! Instructions of holds, beside what callers do without them: reserve and commit beside check and refund, and a check of a
//! key with open holds beside a check of a key without any. See `instructions.rs`.

#![allow(missing_docs, reason = "gungraun's macros make public items")]

use std::hint::black_box;
use std::time::Duration;

use gungraun::prelude::*;
use tidegate::{Algorithm, Cost, Hold, Key, Limit, MemoryStore, Op, Policy, Timestamp};
use tidegate_instructions::DECISIONS;

const MINUTE: Duration = Duration::from_secs(60);
const OPEN_HOLDS: u64 = 100;
const START: u64 = 1_700_000_000_000_000;
/// The time between two decisions, in microseconds.
const STEP: u64 = 1_000;

/// Open holds and charges of a key whose limits have changed since.
const MANY_HOLDS: u64 = 1_000;
const MANY_CHARGES: u64 = 100_000;
/// One of this number of decisions about such a key is made and counted, because it reads every hold.
const ONE_OF: u16 = 100;

/// The end of a hold, compared with the window of one minute.
#[derive(Clone, Copy)]
enum End {
    /// Before the window has passed.
    Early,
    /// Long after it.
    Late,
}
use End::{Early, Late};

impl End {
    fn ttl(self) -> Duration {
        match self {
            Early => MINUTE / 2,
            Late => MINUTE * 30,
        }
    }
}

/// The decisions that are counted.
struct Case {
    store: MemoryStore,
    policy: Policy,
    key: Key<'static>,
    hold: Hold,
    cost: Cost,
    now: u64,
    allowed: u16,
    expected: u16,
}

impl Case {
    fn new(algorithm: Algorithm, max: u64, end: End) -> Self {
        let limit = Limit::new(max, MINUTE).expect("a valid limit");
        Self {
            store: MemoryStore::default(),
            policy: Policy::new("bench", [limit]).expect("a valid policy").with_algorithm(algorithm),
            key: Key::new("user:00000001").expect("a valid key"),
            hold: Hold::new(end.ttl()),
            cost: cost(10),
            now: START,
            allowed: 0,
            expected: DECISIONS,
        }
    }

    /// Decisions about a key without holds and with plenty of room.
    fn of_known_key(algorithm: Algorithm) -> Self {
        let mut case = Self::new(algorithm, 1_000_000_000, Early);
        let now = case.next();
        let _ = case.store.decide(Op::Check, &case.policy, &case.key, Cost::ONE, now);
        case
    }

    /// Decisions about a key with `holds` open holds of one unit and as many units charged without one.
    fn with_holds(algorithm: Algorithm, max: u64, end: End, holds: u64) -> Self {
        let mut case = Self::new(algorithm, max, end);
        case.cost = Cost::ONE;
        for number in 0..2 * OPEN_HOLDS {
            let now = case.next();
            if number % 2 == 0 || number / 2 >= holds {
                assert!(case.store.decide(Op::Check, &case.policy, &case.key, Cost::ONE, now).is_allowed());
            } else {
                let reserved = case.store.reserve(&case.policy, &case.key, Cost::ONE, case.hold, now);
                assert!(reserved.expect("a valid hold").id.is_some());
            }
        }
        case
    }

    fn allowed(algorithm: Algorithm, end: End, holds: u64) -> Self {
        Self::with_holds(algorithm, 1_000_000_000, end, holds)
    }

    fn denied(algorithm: Algorithm, end: End, holds: u64) -> Self {
        let case = Self::with_holds(algorithm, 2 * OPEN_HOLDS + 1, end, holds);
        Self { cost: cost(100), expected: 0, ..case }
    }

    /// Denied decisions about a key with many holds and a long log, under a policy with another window or algorithm.
    fn under_changed_limits(algorithm: Algorithm) -> Self {
        let mut case = Self::new(Algorithm::SlidingLog, 1_000_000_000, Late);
        for number in 0..MANY_CHARGES {
            case.now += 100;
            let now = Timestamp::from_micros(case.now);
            let _ = case.store.decide(Op::Charge, &case.policy, &case.key, Cost::ONE, now);
            if number % (MANY_CHARGES / MANY_HOLDS) == 0 {
                let now = case.next();
                let reserved = case.store.reserve(&case.policy, &case.key, Cost::ONE, case.hold, now);
                assert!(reserved.expect("a valid hold").id.is_some());
            }
        }
        let limit = Limit::new(1_000, MINUTE * 60).expect("a valid limit");
        let policy = Policy::new("bench", [limit]).expect("a valid policy").with_algorithm(algorithm);
        Self { policy, cost: cost(100), expected: 0, ..case }
    }

    fn next(&mut self) -> Timestamp {
        self.now += STEP;
        Timestamp::from_micros(self.now)
    }

    fn check(mut self) -> Self {
        for _ in 0..DECISIONS {
            let now = self.next();
            let decision = self.store.decide(Op::Check, &self.policy, &self.key, self.cost, now);
            self.allowed += u16::from(black_box(decision).is_allowed());
        }
        self
    }

    fn check_few(mut self) -> Self {
        for _ in 0..DECISIONS / ONE_OF {
            let now = self.next();
            let decision = self.store.decide(Op::Check, &self.policy, &self.key, self.cost, now);
            self.allowed += u16::from(black_box(decision).is_allowed());
        }
        self
    }

    fn check_and_refund(mut self) -> Self {
        for _ in 0..DECISIONS {
            let now = self.next();
            let decision = self.store.decide(Op::Check, &self.policy, &self.key, self.cost, now);
            let charged_at = decision.charged_at().expect("it fits");
            let now = self.next();
            black_box(self.store.refund(&self.policy, &self.key, cost(4), charged_at, now));
            self.allowed += 1;
        }
        self
    }

    fn reserve_and_commit(mut self) -> Self {
        for _ in 0..DECISIONS {
            let now = self.next();
            let reserved = self.store.reserve(&self.policy, &self.key, self.cost, self.hold, now);
            let id = reserved.expect("a valid hold").id.expect("it fits");
            let now = self.next();
            let settled = self.store.commit(&id, &[6], &self.policy, now);
            self.allowed += u16::from(black_box(settled).expect("a valid commit").known);
        }
        self
    }

    /// Counts mean nothing if the decisions were not of the kind that the name says.
    fn verify(self) {
        assert_eq!(self.allowed, self.expected);
    }
}

fn cost(units: u64) -> Cost {
    Cost::new(units).expect("a valid cost")
}

fn buckets() -> Algorithm {
    "sliding_buckets:10".parse().expect("a valid algorithm")
}

#[library_benchmark(teardown = Case::verify)]
#[bench::sliding_log(Case::of_known_key(Algorithm::SlidingLog))]
#[bench::sliding_counter(Case::of_known_key(Algorithm::SlidingCounter))]
#[bench::sliding_buckets_10(Case::of_known_key(buckets()))]
#[bench::fixed_window(Case::of_known_key(Algorithm::FixedWindow))]
#[bench::gcra(Case::of_known_key(Algorithm::Gcra(None)))]
fn check_and_refund(case: Case) -> Case {
    case.check_and_refund()
}

#[library_benchmark(teardown = Case::verify)]
#[bench::sliding_log(Case::of_known_key(Algorithm::SlidingLog))]
#[bench::sliding_counter(Case::of_known_key(Algorithm::SlidingCounter))]
#[bench::sliding_buckets_10(Case::of_known_key(buckets()))]
#[bench::fixed_window(Case::of_known_key(Algorithm::FixedWindow))]
#[bench::gcra(Case::of_known_key(Algorithm::Gcra(None)))]
fn reserve_and_commit(case: Case) -> Case {
    case.reserve_and_commit()
}

#[library_benchmark(teardown = Case::verify)]
#[bench::sliding_log_none(Case::allowed(Algorithm::SlidingLog, Early, 0))]
#[bench::sliding_log_early(Case::allowed(Algorithm::SlidingLog, Early, OPEN_HOLDS))]
#[bench::sliding_log_late(Case::allowed(Algorithm::SlidingLog, Late, OPEN_HOLDS))]
#[bench::sliding_counter_none(Case::allowed(Algorithm::SlidingCounter, Early, 0))]
#[bench::sliding_counter_early(Case::allowed(Algorithm::SlidingCounter, Early, OPEN_HOLDS))]
#[bench::sliding_counter_late(Case::allowed(Algorithm::SlidingCounter, Late, OPEN_HOLDS))]
#[bench::sliding_buckets_10_none(Case::allowed(buckets(), Early, 0))]
#[bench::sliding_buckets_10_early(Case::allowed(buckets(), Early, OPEN_HOLDS))]
#[bench::sliding_buckets_10_late(Case::allowed(buckets(), Late, OPEN_HOLDS))]
#[bench::fixed_window_none(Case::allowed(Algorithm::FixedWindow, Early, 0))]
#[bench::fixed_window_early(Case::allowed(Algorithm::FixedWindow, Early, OPEN_HOLDS))]
#[bench::fixed_window_late(Case::allowed(Algorithm::FixedWindow, Late, OPEN_HOLDS))]
#[bench::gcra_none(Case::allowed(Algorithm::Gcra(None), Early, 0))]
#[bench::gcra_early(Case::allowed(Algorithm::Gcra(None), Early, OPEN_HOLDS))]
#[bench::gcra_late(Case::allowed(Algorithm::Gcra(None), Late, OPEN_HOLDS))]
fn check_allowed(case: Case) -> Case {
    case.check()
}

#[library_benchmark(teardown = Case::verify)]
#[bench::sliding_log_none(Case::denied(Algorithm::SlidingLog, Early, 0))]
#[bench::sliding_log_early(Case::denied(Algorithm::SlidingLog, Early, OPEN_HOLDS))]
#[bench::sliding_log_late(Case::denied(Algorithm::SlidingLog, Late, OPEN_HOLDS))]
#[bench::sliding_counter_none(Case::denied(Algorithm::SlidingCounter, Early, 0))]
#[bench::sliding_counter_early(Case::denied(Algorithm::SlidingCounter, Early, OPEN_HOLDS))]
#[bench::sliding_counter_late(Case::denied(Algorithm::SlidingCounter, Late, OPEN_HOLDS))]
#[bench::sliding_buckets_10_none(Case::denied(buckets(), Early, 0))]
#[bench::sliding_buckets_10_early(Case::denied(buckets(), Early, OPEN_HOLDS))]
#[bench::sliding_buckets_10_late(Case::denied(buckets(), Late, OPEN_HOLDS))]
#[bench::fixed_window_none(Case::denied(Algorithm::FixedWindow, Early, 0))]
#[bench::fixed_window_early(Case::denied(Algorithm::FixedWindow, Early, OPEN_HOLDS))]
#[bench::fixed_window_late(Case::denied(Algorithm::FixedWindow, Late, OPEN_HOLDS))]
#[bench::gcra_none(Case::denied(Algorithm::Gcra(None), Early, 0))]
#[bench::gcra_early(Case::denied(Algorithm::Gcra(None), Early, OPEN_HOLDS))]
#[bench::gcra_late(Case::denied(Algorithm::Gcra(None), Late, OPEN_HOLDS))]
fn check_denied(case: Case) -> Case {
    case.check()
}

// One in `ONE_OF` of the decisions is made, so that the counts are hundredths of a decision.
#[library_benchmark(teardown = Case::verify)]
#[bench::sliding_log(Case::under_changed_limits(Algorithm::SlidingLog))]
#[bench::sliding_counter(Case::under_changed_limits(Algorithm::SlidingCounter))]
#[bench::sliding_buckets_10(Case::under_changed_limits(buckets()))]
#[bench::gcra(Case::under_changed_limits(Algorithm::Gcra(None)))]
fn hundredth_of_check_denied_under_changed_limits(case: Case) -> Case {
    case.check_few()
}

library_benchmark_group!(
    name = hold,
    benchmarks = [
        check_and_refund,
        reserve_and_commit,
        check_allowed,
        check_denied,
        hundredth_of_check_denied_under_changed_limits
    ]
);

main!(library_benchmark_groups = hold);
