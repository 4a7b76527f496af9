//! Compares holds with what callers do without them: reserve and commit with check and refund, and a check on a key with
//! open holds with a check on a key without any.

use std::fmt;
use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use tidegate::{Cost, Hold, Key, Limit, Limiter, ManualClock, Policy, Timestamp};

use crate::machine::Machine;
use crate::measure::{as_f64, median};
use crate::options::Size;
use crate::progress;
use crate::stopwatch::now;
use crate::table::{Columns, met_or_missed, target};
use crate::workload;

/// One key, which is in the first cache, and many keys, which are not.
const KEYS: [usize; 2] = [1, 1_000];
const OPERATIONS: u32 = 400_000;
const OPEN_HOLDS: usize = 100;
const START_MICROS: u64 = 1_700_000_000_000_000;
/// The time between two operations.
const STEP: Duration = Duration::from_micros(50);
const RESERVE_TARGET: f64 = 1.3;
const CHECK_TARGET: f64 = 1.2;
const ALGORITHMS: [&str; 5] = ["sliding_log", "sliding_counter", "sliding_buckets:10", "fixed_window", "gcra"];
/// A maximum that is never reached, and one that is reached when all holds are open.
const PLENTY: u64 = 1_000_000_000;
const ALL_HELD: u64 = 100;
/// Holds that end before the window of one minute has passed, and after it.
const TTLS: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(1_800)];

/// Options of the command line.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Rounds to take the median of
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    #[command(flatten)]
    size: Size,
}

/// The measurements.
#[derive(Debug, Serialize)]
pub struct HoldsReport {
    /// The machine.
    pub machine: Machine,
    /// The number of rounds.
    pub rounds: u16,
    /// Reserve and commit, compared with check and refund.
    pub reserve_and_commit: Vec<Row>,
    /// An allowed check on a key with open holds, compared with one on a key without any.
    pub check: Vec<Row>,
    /// The same for a denied check.
    pub denied_check: Vec<Row>,
}

/// One comparison.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The algorithm.
    pub algorithm: &'static str,
    /// The ttl of the holds, in seconds.
    pub ttl_seconds: u64,
    /// The number of keys that are requested in turn.
    pub keys: usize,
    /// Median nanoseconds without holds.
    pub without_ns: f64,
    /// Median nanoseconds with holds.
    pub with_ns: f64,
    /// The median of the ratios in each round.
    pub ratio: f64,
    /// The greatest ratio that is wanted.
    pub target: f64,
}

impl Row {
    fn is_met(&self) -> bool {
        self.ratio <= self.target
    }
}

/// What is held.
#[derive(Debug, Clone, Copy)]
struct Holds {
    algorithm: &'static str,
    ttl: Duration,
    keys: usize,
}

/// A limiter and the time by which it decides, which moves on with every operation.
struct Subject {
    limiter: Limiter,
    time: ManualClock,
    policy: Policy,
    keys: Vec<Key<'static>>,
}

impl Subject {
    fn new(algorithm: &str, max: u64, keys: usize) -> Result<Self> {
        let time = ManualClock::at(Timestamp::from_micros(START_MICROS));
        let policy =
            Policy::new("tokens", [Limit::new(max, Duration::from_secs(60))?])?.with_algorithm(algorithm.parse()?);
        let texts = workload::texts(&workload::shuffled(keys));
        let keys = texts.into_iter().map(Key::try_from).collect::<Result<_, _>>()?;
        Ok(Self { limiter: Limiter::default().with_clock(time.clock()), time, policy, keys })
    }

    /// Nanoseconds of an operation.
    fn time_of(&self, operations: usize, operation: impl Fn(&Self, &Key<'_>)) -> f64 {
        let start = now();
        for key in self.keys.iter().cycle().take(operations) {
            self.time.advance(STEP);
            operation(self, key);
        }
        (now() - start).as_secs_f64() * 1e9 / as_f64(operations)
    }
}

/// Measures holds in memory.
///
/// # Errors
/// If a key is not valid.
pub fn run(options: &Options) -> Result<HoldsReport> {
    let (mut reserve_and_commit, mut check, mut denied_check) = (Vec::new(), Vec::new(), Vec::new());
    for algorithm in ALGORITHMS {
        for ttl in TTLS {
            for keys in KEYS {
                progress::show(&format!("{algorithm}, holds of {} s, {keys} keys", ttl.as_secs()));
                let holds = Holds { algorithm, ttl, keys };
                reserve_and_commit.push(reserve_row(holds, options)?);
                check.push(check_row(holds, PLENTY, Cost::ONE, options)?);
                denied_check.push(check_row(holds, ALL_HELD, Cost::new(ALL_HELD / 2)?, options)?);
            }
        }
    }
    Ok(HoldsReport { machine: Machine::this(), rounds: options.rounds, reserve_and_commit, check, denied_check })
}

fn reserve_row(holds: Holds, options: &Options) -> Result<Row> {
    let (asked, unused) = (Cost::new(10)?, Cost::new(4)?);
    let check_and_refund = |subject: &Subject, key: &Key<'_>| {
        let decision = subject.limiter.check(&subject.policy, key, asked);
        let charged_at = decision.charged_at().expect("it fits");
        black_box(subject.limiter.refund(&subject.policy, key, unused, charged_at));
    };
    let Holds { algorithm, ttl, keys } = holds;
    let reserve_and_commit = |subject: &Subject, key: &Key<'_>| {
        let reserved = subject.limiter.reserve(&subject.policy, key, asked, Hold::new(ttl)).expect("a valid hold");
        let id = reserved.id.expect("it fits");
        black_box(subject.limiter.commit(&id, &[6], &subject.policy).expect("a valid commit"));
    };
    let subjects = [Subject::new(algorithm, PLENTY, keys)?, Subject::new(algorithm, PLENTY, keys)?];
    Ok(row(holds, RESERVE_TARGET, options, &subjects, check_and_refund, reserve_and_commit))
}

/// Checks of `cost` units. They are all allowed, or all denied because the open holds have taken `max` units.
fn check_row(holds: Holds, max: u64, cost: Cost, options: &Options) -> Result<Row> {
    let Holds { algorithm, ttl, keys } = holds;
    let subjects = [Subject::new(algorithm, max, keys)?, Subject::new(algorithm, max, keys)?];
    for _ in 0..OPEN_HOLDS {
        for ([one, other], key) in std::iter::repeat(&subjects).zip(&subjects[0].keys) {
            let _ = one.limiter.check(&one.policy, key, Cost::ONE);
            let hold = other.limiter.reserve(&other.policy, key, Cost::ONE, Hold::new(ttl))?;
            hold.id.context("a hold does not fit")?;
        }
        for subject in &subjects {
            subject.time.advance(STEP);
        }
    }
    let check = |subject: &Subject, key: &Key<'_>| {
        let decision = black_box(subject.limiter.check(&subject.policy, key, cost));
        assert_eq!(decision.is_allowed(), max == PLENTY, "a check of the other kind");
    };
    let subjects = &subjects;
    // All rounds together take less time than the shortest hold.
    let measured = row(holds, CHECK_TARGET, options, subjects, check, check);
    let open = subjects[1].limiter.inspect(&subjects[1].policy, &subjects[1].keys[0]);
    anyhow::ensure!(open.is_some_and(|state| state.reservations.len() == OPEN_HOLDS), "holds have ended meanwhile");
    Ok(measured)
}

/// Measures both in turn.
fn row(
    holds: Holds,
    target: f64,
    options: &Options,
    [without, with]: &[Subject; 2],
    without_holds: impl Fn(&Subject, &Key<'_>),
    with_holds: impl Fn(&Subject, &Key<'_>),
) -> Row {
    let operations = (options.size.of(OPERATIONS) / u32::from(options.rounds)) as usize;
    let (mut base, mut ours, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let one = without.time_of(operations, &without_holds);
        let other = with.time_of(operations, &with_holds);
        base.push(one);
        ours.push(other);
        ratios.push(other / one);
    }
    let (without_ns, with_ns, ratio) = (median(base), median(ours), median(ratios));
    let Holds { algorithm, ttl, keys } = holds;
    Row { algorithm, ttl_seconds: ttl.as_secs(), keys, without_ns, with_ns, ratio, target }
}

fn table<'a>(rows: &'a [Row], [without, with]: [&str; 2]) -> Columns<&'a Row> {
    Columns::of(rows.iter())
        .text("algorithm", |row| row.algorithm.to_owned())
        .number("ttl", |row| format!("{} s", row.ttl_seconds))
        .number("keys", |row| row.keys.to_string())
        .number(without, |row| format!("{:.0} ns", row.without_ns))
        .number(with, |row| format!("{:.0} ns", row.with_ns))
        .number("ratio", |row| format!("{:.2}", row.ratio))
        .text("target", |row| target("<=", row.target))
        .text("", |row| met_or_missed(row.is_met()))
}

impl fmt::Display for HoldsReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}, median of {} rounds", self.machine, self.rounds)?;
        let title = "Reserve and commit, compared with check and refund";
        table(&self.reserve_and_commit, ["check + refund", "reserve + commit"]).write(out, title)?;
        for (kind, rows) in [("An allowed", &self.check), ("A denied", &self.denied_check)] {
            let title = format!("{kind} check on a key with {OPEN_HOLDS} open holds, compared with none");
            table(rows, ["none", "open holds"]).write(out, &title)?;
        }
        Ok(())
    }
}
