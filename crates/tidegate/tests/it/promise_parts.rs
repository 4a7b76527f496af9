//! Several (policy, key, cost) at once: all or nothing, one answer, the same policy and key twice is one check.

use proptest::prelude::*;

use crate::duet::Duet;
use crate::gate::{Gate, Tested};
use crate::model::{Micros, Op, Part, Rule, Units, Verdict};
use crate::scenes::{self, Hop, Moments, Price};

/// A request of one to four parts: which policy, which key, what cost.
type Request = (Op, Hop, Vec<(u8, u8, Price)>);

fn request(hop: impl Strategy<Value = Hop>) -> impl Strategy<Value = Request> {
    let part = (0..3u8, 0..2u8, scenes::price());
    (scenes::op(), hop, prop::collection::vec(part, 1..=4))
}

/// Three policies that take turns in being asked together.
fn policies() -> impl Strategy<Value = Vec<Rule>> {
    let mode = prop_oneof![3 => Just(false), 1 => Just(true)];
    prop::collection::vec((scenes::rule(), mode), 3)
        .prop_map(|rules| rules.into_iter().map(|(rule, shadow)| Rule { shadow, ..rule }).collect())
}

/// The parts with their costs, no (policy, key) asked for more than is well-formed.
fn parts(policies: &[Rule], moments: &Moments, wanted: &[(u8, u8, Price)]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (policy, key, price) in wanted {
        let rule = policies[usize::from(*policy)].clone();
        let cost = price.of(&rule, moments.last.as_ref());
        let name = (*policy, *key);
        let sum: Units = parts.iter().filter(|part| part.name == name).map(|part| part.cost).sum();
        if sum + cost <= 1_000_000_000_000 {
            parts.push(Part { name, rule, cost });
        }
    }
    parts
}

/// A time that lags by no more than any policy's longest window, so that it is nowhere believed.
fn time(policies: &[Rule], moments: &Moments, hop: Hop) -> Micros {
    let newest = moments.charged.iter().max().copied().unwrap_or(0);
    let shortest = policies.iter().map(Rule::longest_window).min().expect("three policies");
    moments.at(hop, &policies[0]).max(newest - shortest)
}

proptest! {
    #![proptest_config(scenes::config(600))]

    #[test]
    fn the_library_tells_of_several_what_the_model_tells(
        policies in policies(),
        start in scenes::start(),
        requests in prop::collection::vec(request(scenes::any_hop()), scenes::steps(20)),
    ) {
        let mut duet = Duet::starting(start);
        for (op, hop, wanted) in requests {
            let parts = parts(&policies, &duet.moments, &wanted);
            let now = duet.moments.at(hop, &policies[0]);
            duet.decide_all(op, &parts, now)?;
        }
    }

    #[test]
    fn all_are_charged_or_none(
        policies in policies(),
        start in scenes::start(),
        requests in prop::collection::vec(request(scenes::onward_hop()), scenes::steps(20)),
    ) {
        let policies: Vec<Rule> = policies.into_iter().map(|rule| Rule { shadow: false, ..rule }).collect();
        let mut gate = Tested::default();
        let mut moments = Moments::starting(start);
        for (_, hop, wanted) in requests {
            let parts = parts(&policies, &moments, &wanted);
            let now = time(&policies, &moments, hop);
            let before: Vec<_> = parts.iter().map(|part| gate.peek(part, now)).collect();
            let answers = gate.decide_all(Op::Check, &parts, now);
            let all = answers.overall.verdict == Verdict::Allowed;
            for ((part, before), answer) in parts.iter().zip(before).zip(&answers.parts) {
                prop_assert_eq!(answer.charged_at.is_some(), all, "{:?}", answers);
                let after = gate.peek(part, now);
                if all {
                    prop_assert!(after.remaining < before.remaining, "{:?} was charged", part);
                } else {
                    prop_assert_eq!(before, after, "{:?} was not charged", part);
                }
            }
            let denied = answers.parts.iter().any(|answer| answer.verdict != Verdict::Allowed);
            prop_assert_eq!(denied, !all, "{:?}", answers);
            moments.note(now, answers.overall);
        }
    }

    #[test]
    fn a_decision_makes_room_for_new_keys_without_harm_to_the_others(
        rule in scenes::rule_of(scenes::algo()),
        start in scenes::start(),
        costs in prop::collection::vec(1..=3i128, 40),
        later in 1..=3i128,
    ) {
        // Twenty keys whose windows have passed or are passing and twenty new ones, in turn: some share a shard.
        let mut duet = Duet::starting(start);
        let part = |key: usize| {
            Part { name: (0, u8::try_from(key).expect("few keys")), rule: rule.clone(), cost: costs[key % 40] }
        };
        for key in 0..20 {
            duet.decide(Op::Charge, &part(2 * key), start)?;
        }
        let parts: Vec<Part> = (0..40).map(part).collect();
        duet.decide_all(Op::Charge, &parts, start + later * rule.longest_window())?;
        for part in &parts {
            duet.decide(Op::Peek, part, start + later * rule.longest_window())?;
        }
    }

    #[test]
    fn the_same_policy_and_key_twice_is_one_check_of_the_sum(
        rule in scenes::rule(),
        start in scenes::start(),
        requests in prop::collection::vec((scenes::op(), scenes::onward_hop(), 1..=6i128, scenes::price()), scenes::steps(20)),
    ) {
        let (mut twice, mut once) = (Tested::default(), Tested::default());
        let mut moments = Moments::starting(start);
        let part = |cost| Part { name: (0, 0), rule: rule.clone(), cost };
        for (op, hop, one, price) in requests {
            let other = (price.of(&rule, moments.last.as_ref()) - one).max(1);
            let now = moments.onward(hop, &rule);
            let split = twice.decide_all(op, &[part(one), part(other)], now).overall;
            let summed = once.decide(op, &part(one + other), now);
            prop_assert_eq!(split, summed, "{:?} of {} and {} at {}", op, one, other, now);
            moments.note(now, summed);
        }
    }
}
