//! Overrides: the library tells what the model tells while they are set, replaced, lifted, and end.

use proptest::prelude::*;

use crate::duet::Duet;
use crate::gate::{Gate, Overrides};
use crate::model::{Algo, Cap, Micros, Op, Overrule, Overruling, Part, Rule};
use crate::scenes::{self, Hop, Price};

/// When something is asked: at a time of the scene, or beside the end of an override.
#[derive(Clone, Copy, Debug)]
enum When {
    Hop(Hop),
    End(Micros),
}

/// How long an override is to hold.
#[derive(Clone, Copy, Debug)]
enum Span {
    Few(Micros),
    Eighths(i128),
    /// Beside the time at which the last answer says to retry.
    Retry(Micros),
    Forever,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Limits,
    Ban,
    Exempt,
}

#[derive(Clone, Debug)]
enum Step {
    Ask(Op, When, Vec<(u8, u8, Price)>),
    Refund(When, (u8, u8), usize, Price),
    Set(When, (u8, u8), Kind, Span),
    Lift(When, (u8, u8)),
    Reset((u8, u8)),
}

fn when(hop: impl Strategy<Value = Hop>) -> impl Strategy<Value = When> {
    prop_oneof![4 => hop.prop_map(When::Hop), 1 => (-1..=1i128).prop_map(When::End)]
}

fn step() -> impl Strategy<Value = Step> {
    let name = || (0..2u8, 0..2u8);
    let parts = prop_oneof![
        3 => scenes::price().prop_map(|price| vec![(0, 0, price)]),
        1 => prop::collection::vec((0..2u8, 0..2u8, scenes::price()), 1..=3),
    ];
    let span = prop_oneof![
        2 => (1..=3i128).prop_map(Span::Few),
        3 => (1..=20i128).prop_map(Span::Eighths),
        2 => (-1..=1i128).prop_map(Span::Retry),
        2 => Just(Span::Forever),
    ];
    let kind = prop_oneof![3 => Just(Kind::Limits), 2 => Just(Kind::Ban), 1 => Just(Kind::Exempt)];
    let whose = || prop_oneof![3 => Just((0, 0)), 1 => name()];
    let hop = scenes::onward_hop;
    prop_oneof![
        12 => (scenes::op(), when(hop()), parts).prop_map(|(op, when, parts)| Step::Ask(op, when, parts)),
        2 => (when(hop()), whose(), 0..6usize, scenes::price()).prop_map(|(w, n, c, p)| Step::Refund(w, n, c, p)),
        4 => (when(hop()), whose(), kind, span).prop_map(|(w, n, k, s)| Step::Set(w, n, k, s)),
        1 => (when(hop()), whose()).prop_map(|(w, n)| Step::Lift(w, n)),
        1 => whose().prop_map(Step::Reset),
    ]
}

/// Two policies, each with the limits that may override its own.
struct Scene {
    duet: Duet,
    policies: [[Rule; 2]; 2],
    latest: Micros,
}

impl Scene {
    fn part(&self, name: (u8, u8), price: Price) -> Part {
        let rule = self.policies[usize::from(name.0)][0].clone();
        let cost = price.of(&rule, self.duet.moments.last.as_ref()).min(20);
        Part { name, rule, cost }
    }

    /// The time that is meant, lagging by no more than the shortest of the longest windows.
    fn time(&self, when: When, name: (u8, u8)) -> Micros {
        let moments = &self.duet.moments;
        let shortest = self.policies.iter().flatten().map(Rule::longest_window).min().expect("four of them");
        let newest = moments.charged.iter().max().copied().unwrap_or(0);
        let end = self.duet.model.overrides.get(&name).and_then(|by| by.until);
        let meant = match (when, end) {
            (When::End(beside), Some(end)) => end + beside,
            (When::End(_), None) => moments.now,
            (When::Hop(hop), _) => moments.at(hop, &self.policies[usize::from(name.0)][0]),
        };
        meant.max(newest - shortest).max(0)
    }

    /// Once its end is seen an override may be forgotten. What a `now` before that finds is open then, so that it is made
    /// sure of: both forget.
    fn forget_what_has_ended(&mut self, now: Micros) {
        let names: Vec<(u8, u8)> = self.duet.model.overrides.keys().copied().collect();
        for name in names {
            let part = self.part(name, Price::Known(1));
            let newest = self.duet.model.subject(name).newest.unwrap_or(0);
            let end = self.duet.model.overrides[&name].until;
            if end.is_some_and(|end| now < end && end <= self.latest.max(newest)) {
                self.duet.model.remove_override(&part, now);
                self.duet.library.remove_override(&part, now);
            }
        }
        self.latest = self.latest.max(now);
        self.forget_what_is_idle();
    }

    /// The same of states in which nothing is in use, which may go whenever another key comes.
    fn forget_what_is_idle(&mut self) {
        for name in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let subject = self.duet.model.subject(name);
            let (Some(stored), Some(newest)) = (&subject.rule, subject.newest) else { continue };
            let idle = (0..stored.caps.len()).all(|i| subject.used(stored, i, self.latest) == 0);
            if idle && self.latest - newest >= stored.longest_window() {
                let part = self.part(name, Price::Known(1));
                self.duet.model.reset(&part);
                self.duet.library.reset(&part);
            }
        }
    }

    fn set(&mut self, now: Micros, name: (u8, u8), kind: Kind, span: Span) -> Result<(), TestCaseError> {
        let [own, other] = &self.policies[usize::from(name.0)];
        let until = match span {
            Span::Few(by) => Some(now + by),
            Span::Eighths(eighths) => Some(now + own.longest_window() * eighths / 8),
            Span::Retry(beside) => {
                let wait = self.duet.moments.last.and_then(|answer| answer.retry_after).unwrap_or(5);
                Some(now + (wait + beside).max(1))
            }
            Span::Forever => None,
        };
        let rule = match kind {
            Kind::Limits => Overrule::Limits(other.clone()),
            Kind::Ban => Overrule::Ban,
            Kind::Exempt => Overrule::Exempt,
        };
        let (part, by) = (self.part(name, Price::Known(1)), Overruling { rule, until });
        let (expected, got) =
            (self.duet.model.set_override(&part, &by, now), self.duet.library.set_override(&part, &by, now));
        prop_assert_eq!(expected, got, "set {:?} at {}: the model left, the library right", by, now);
        Ok(())
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        let (when, name) = match &step {
            Step::Ask(_, when, parts) => (*when, (parts[0].0, parts[0].1)),
            Step::Refund(when, name, ..) | Step::Set(when, name, ..) | Step::Lift(when, name) => (*when, *name),
            Step::Reset(name) => (When::Hop(Hop::Same), *name),
        };
        let now = self.time(when, name);
        self.forget_what_has_ended(now);
        match step {
            Step::Ask(op, _, wanted) => {
                let parts: Vec<Part> = wanted.iter().map(|(p, k, price)| self.part((*p, *k), *price)).collect();
                match &parts[..] {
                    [part] => self.duet.decide(op, part, now)?,
                    _ => self.duet.decide_all(op, &parts, now)?,
                }
            }
            // Of several charges in a slot of a shape that has changed, which is given back is open.
            Step::Refund(..) if self.duet.model.subject(name).passage.is_some() => {}
            Step::Refund(_, _, charge, price) => {
                let charged_at = self.duet.moments.charge(charge);
                self.duet.refund(&self.part(name, price), charged_at, now)?;
            }
            Step::Set(_, _, kind, span) => self.set(now, name, kind, span)?,
            Step::Lift(..) => {
                let part = self.part(name, Price::Known(1));
                let (expected, got) =
                    (self.duet.model.remove_override(&part, now), self.duet.library.remove_override(&part, now));
                prop_assert_eq!(expected, got, "lifted at {}: the model left, the library right", now);
            }
            Step::Reset(_) => self.duet.reset(&self.part(name, Price::Known(1)))?,
        }
        let part = self.part(name, Price::Known(1));
        let (expected, got) = (self.duet.model.override_of(&part, now), self.duet.library.override_of(&part, now));
        prop_assert_eq!(expected, got, "the override at {}: the model left, the library right", now);
        Ok(())
    }
}

/// A policy of one limit and another limit, of any algorithm each.
fn other_shape() -> impl Strategy<Value = [Rule; 2]> {
    let pair = scenes::rules_of_one_limit(scenes::algo(), 2);
    let pair = pair.prop_filter("a debt under another window is another test's", |rules| {
        rules.iter().any(|rule| rule.algo != Algo::Gcra)
    });
    pair.prop_map(|rules| rules.try_into().expect("two were made"))
}

/// A policy of one to three limits and the same with other maxes.
fn other_maxes() -> impl Strategy<Value = [Rule; 2]> {
    (scenes::rule(), prop::collection::vec(1..=12i128, 6)).prop_map(|(rule, maxes)| {
        let with = |maxes: &[i128]| Rule {
            caps: rule.caps.iter().zip(maxes).map(|(cap, max)| Cap::new(*max, cap.window)).collect(),
            ..rule.clone()
        };
        [with(&maxes[..3]), with(&maxes[3..])]
    })
}

fn policy() -> impl Strategy<Value = [Rule; 2]> {
    (prop_oneof![other_shape(), other_maxes()], prop::bool::weighted(0.2))
        .prop_map(|([own, other], shadow)| [Rule { shadow, ..own }, other])
}

proptest! {
    #![proptest_config(scenes::config(1200))]

    #[test]
    fn the_library_tells_of_overrides_what_the_model_tells(
        policies in [policy(), policy()],
        start in scenes::start(),
        steps in prop::collection::vec(step(), scenes::steps(30)),
    ) {
        let mut scene = Scene { duet: Duet::starting(start), policies, latest: start };
        for step in steps {
            scene.take(step)?;
        }
    }
}

proptest! {
    #![proptest_config(scenes::long_config(8))]

    #[test]
    fn the_library_tells_of_overrides_in_a_long_history_what_the_model_tells(
        policies in [policy(), policy()],
        start in scenes::start(),
        steps in prop::collection::vec(step(), scenes::long_history()),
    ) {
        let mut scene = Scene { duet: Duet::starting(start), policies, latest: start };
        scene.duet.inspected_every = 5;
        for step in steps {
            scene.take(step)?;
        }
    }
}
