//! Long histories: hundreds of requests for one key, among them runs of charges, silences of about a window after which the
//! state is still there, refunds of all kinds and changes of shape. The library tells what the model tells.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use crate::duet::{COMPARED, Duet};
use crate::model::{Algo, Cap, Micros, Op, Part, Rule, Units};
use crate::scenes::{self, Hop, Price};

/// How far apart the charges of a run are at the most.
#[derive(Clone, Copy, Debug)]
enum Gap {
    Few,
    /// A part of the longest window, in thousandths.
    Part(i128),
}

#[derive(Clone, Debug)]
enum Step {
    Ask(Op, Hop, Price),
    /// Many charges, all at different times.
    Run {
        op: Op,
        count: usize,
        gap: Gap,
        seed: u64,
    },
    /// Nothing for about a window, then several requests shortly after each other.
    Silence {
        hop: Hop,
        then: Vec<(Op, Hop, Price)>,
    },
    Refund {
        hop: Hop,
        charge: usize,
        beside: Micros,
        times: usize,
        price: Price,
    },
    SetMax([Units; 3]),
    OtherShape,
    Reset,
}

fn run() -> impl Strategy<Value = Step> {
    let op = prop_oneof![3 => Just(Op::Charge), 1 => Just(Op::Check)];
    let count = prop_oneof![12 => 2..30usize, 4 => 30..150usize, 1 => 300..800usize];
    let gap = prop_oneof![2 => Just(Gap::Few), 3 => select_part()];
    (op, count, gap, any::<u64>()).prop_map(|(op, count, gap, seed)| Step::Run { op, count, gap, seed })
}

fn select_part() -> impl Strategy<Value = Gap> {
    prop::sample::select(vec![1, 4, 15, 60]).prop_map(Gap::Part)
}

fn silence() -> impl Strategy<Value = Step> {
    let soon = prop_oneof![2 => Just(Hop::Same), 3 => (1..=3i128).prop_map(Hop::Later), 2 => scenes::onward_hop()];
    let op = prop_oneof![3 => Just(Op::Check), 2 => Just(Op::Charge), 1 => Just(Op::Peek)];
    let then = prop::collection::vec((op, soon, scenes::price()), 1..6);
    (scenes::silence(), then).prop_map(|(hop, then)| Step::Silence { hop, then })
}

fn refund() -> impl Strategy<Value = Step> {
    // The newest, one of the last, or one far back.
    let charge = prop_oneof![2 => Just(0usize), 3 => 0..8usize, 2 => 0..400usize];
    let beside = prop_oneof![6 => Just(0i128), 1 => -1..=1i128];
    (scenes::onward_hop(), charge, beside, 1..4usize, scenes::price())
        .prop_map(|(hop, charge, beside, times, price)| Step::Refund { hop, charge, beside, times, price })
}

fn maxes() -> impl Strategy<Value = [Units; 3]> {
    let max = || prop_oneof![3 => 1..=12i128, 3 => 20..=300i128, 2 => 600..=3_000i128];
    [max(), max(), max()]
}

fn step() -> impl Strategy<Value = Step> {
    let ask = |hop| (scenes::op(), hop, scenes::price()).prop_map(|(op, hop, price)| Step::Ask(op, hop, price));
    prop_oneof![
        140 => ask(scenes::onward_hop().boxed()),
        6 => ask(scenes::any_hop().boxed()),
        12 => run(),
        20 => silence(),
        40 => refund(),
        6 => maxes().prop_map(Step::SetMax),
        12 => Just(Step::OtherShape),
        1 => Just(Step::Reset),
    ]
}

/// Policies whose states are long lists, for the most part.
fn rule() -> impl Strategy<Value = Rule> {
    let buckets = prop::sample::select(vec![7i128, 60, 365, 1_000]).prop_map(Algo::Buckets);
    let algo = prop_oneof![6 => Just(Algo::Log), 3 => buckets, 1 => scenes::algo()];
    (scenes::rule_of(algo), maxes()).prop_map(|(rule, maxes)| with_maxes(&rule, maxes))
}

/// A debt keeps its max, since its bursts depend on it.
fn with_maxes(rule: &Rule, maxes: [Units; 3]) -> Rule {
    let changed = |(cap, max): (&Cap, Units)| if rule.algo == Algo::Gcra { *cap } else { Cap::new(max, cap.window) };
    Rule { caps: rule.caps.iter().zip(maxes).map(changed).collect(), ..rule.clone() }
}

/// One policy, or two shapes of one limit between which a history alternates.
fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let two = scenes::rules_of_one_limit(scenes::algo(), 2)
        .prop_filter("a debt under another window is another test's", |rules| {
            rules.iter().any(|rule| rule.algo != Algo::Gcra)
        })
        // What a run charges to the other shape must not saturate a debt, which is another test's.
        .prop_filter("a debt must hold what runs charge", |rules| {
            rules.iter().all(|rule| rule.algo != Algo::Gcra || rule.storable() >= 1_000_000)
        });
    prop_oneof![3 => rule().prop_map(|rule| vec![rule]), 1 => two]
}

struct Scene {
    duet: Duet,
    rules: Vec<Rule>,
    current: usize,
}

impl Scene {
    fn part(&self, price: Price) -> Part {
        let rule = self.rules[self.current].clone();
        let mut cost = price.of(&rule, self.duet.moments.last.as_ref());
        // As many units as can be charged to any shape, and as often as a long history does.
        if self.rules.len() > 1 {
            cost = cost.min(20);
        }
        if rule.algo == Algo::Gcra {
            cost = cost.min(rule.storable() / 64).max(1);
        }
        Part { name: (0, 0), rule, cost }
    }

    fn ask(&mut self, op: Op, hop: Hop, price: Price) -> Result<(), TestCaseError> {
        let (part, moments) = (self.part(price), &self.duet.moments);
        // Two shapes that alternate read a time far back in two ways.
        let now = if self.rules.len() > 1 { moments.onward(hop, &part.rule) } else { moments.at(hop, &part.rule) };
        self.duet.decide(op, &part, now)
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Ask(op, hop, price) => self.ask(op, hop, price)?,
            Step::Run { op, count, gap, mut seed } => {
                let longest = match gap {
                    Gap::Few => 3,
                    Gap::Part(thousandths) => self.rules[self.current].longest_window() * thousandths / 1_000,
                };
                for _ in 0..count {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let later = 1 + Micros::from(seed >> 33) % longest.max(1);
                    self.ask(op, Hop::Later(later), Price::Known(1 + Units::from(seed >> 62)))?;
                }
            }
            Step::Silence { hop, then } => {
                self.ask(Op::Check, hop, Price::Known(1))?;
                for (op, hop, price) in then {
                    self.ask(op, hop, price)?;
                }
            }
            // Of several charges in a slot of a shape that has changed, which is given back is open.
            Step::Refund { .. } if self.rules.len() > 1 => {}
            Step::Refund { hop, charge, beside, times, price } => {
                let charged_at = (self.duet.moments.charge(charge) + beside).max(0);
                for _ in 0..times {
                    let part = self.part(price);
                    let now = self.duet.moments.at(hop, &part.rule);
                    self.duet.refund(&part, charged_at, now)?;
                }
            }
            Step::SetMax(maxes) => {
                if self.rules.len() == 1 {
                    self.rules[0] = with_maxes(&self.rules[0], maxes);
                }
            }
            Step::OtherShape => self.current = (self.current + 1) % self.rules.len(),
            Step::Reset => self.duet.reset(&self.part(Price::Known(1)))?,
        }
        Ok(())
    }
}

fn play(rules: Vec<Rule>, start: Micros, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut scene = Scene { duet: Duet::starting(start), rules, current: 0 };
    scene.duet.inspected_every = 9;
    for step in steps {
        scene.take(step)?;
    }
    Ok(())
}

fn long_steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), scenes::long_history())
}

proptest! {
    #![proptest_config(scenes::long_config(24))]

    #[test]
    fn a_long_history_is_told_as_the_model_tells_it(rules in rules(), start in scenes::start(), steps in long_steps()) {
        play(rules, start, steps)?;
    }
}

proptest! {
    #![proptest_config(scenes::config(300))]

    #[test]
    fn a_short_history_with_runs_and_silences_is_told_as_the_model_tells_it(
        rules in rules(),
        start in scenes::start(),
        steps in prop::collection::vec(prop_oneof![3 => step(), 1 => silence()], scenes::steps(30)),
    ) {
        play(rules, start, steps)?;
    }
}

/// Plays a few histories; the same ones for the same seed.
fn play_histories(seed: u64) -> u64 {
    let cases = 4;
    let config = ProptestConfig { rng_seed: RngSeed::Fixed(seed), cases, ..scenes::long_config(cases) };
    let played = TestRunner::new(config)
        .run(&(rules(), scenes::start(), long_steps()), |(rules, start, steps)| play(rules, start, steps));
    assert!(played.is_ok(), "seed {seed}: {}", played.unwrap_err());
    cases.into()
}

/// Compares `TIDEGATE_DECISIONS` decisions, a million if that is not set, of histories of 300 steps and more.
#[test]
#[ignore = "takes many minutes"]
fn a_million_decisions_of_long_histories_are_those_of_the_model() {
    let wanted = scenes::number("TIDEGATE_DECISIONS").unwrap_or(1_000_000);
    let first = u64::try_from(scenes::number("PROPTEST_RNG_SEED").unwrap_or(20_261_117)).expect("64 bits");
    let (before, next) = (COMPARED.load(Relaxed), AtomicU64::new(first));
    let compared = || COMPARED.load(Relaxed) - before;
    let work = || {
        let mut histories = 0;
        while compared() < wanted {
            histories += play_histories(next.fetch_add(1, Relaxed));
        }
        histories
    };
    let histories: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no difference")).sum()
    });
    let seeds = next.load(Relaxed) - first;
    println!("{} decisions of {histories} histories, {seeds} seeds from {first} on: 0 different", compared());
}
