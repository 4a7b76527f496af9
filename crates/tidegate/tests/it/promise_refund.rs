//! A refund gives units back to the moment they were charged, not to now, and never moves the newest charge.

use proptest::prelude::*;

use crate::gate::{Gate, Tested};
use crate::model::{Algo, Part, Rule, Units};
use crate::scenes::{self, Moments, Price};

fn counting_algo() -> impl Strategy<Value = Algo> {
    prop_oneof![Just(Algo::Log), Just(Algo::Counter), (1..=1_000i128).prop_map(Algo::Buckets), Just(Algo::Fixed)]
}

fn part(rule: &Rule, cost: Units) -> Part {
    Part { name: (0, 0), rule: rule.clone(), cost }
}

proptest! {
    #![proptest_config(scenes::config(800))]

    #[test]
    fn what_was_given_back_was_never_charged(
        rule in scenes::rule_of(counting_algo()),
        start in scenes::start(),
        charges in prop::collection::vec((scenes::onward_hop(), 1..=5i128), 2..12),
        refunded in 0..12usize,
        back in 1..=5i128,
        later in prop::collection::vec(scenes::onward_hop(), 1..8),
    ) {
        let (mut given_back, mut never) = (Tested::default(), Tested::default());
        let mut moments = Moments::starting(start);
        let mut times = Vec::new();
        let refunded = refunded % charges.len();
        for (i, (hop, cost)) in charges.iter().enumerate() {
            let now = moments.onward(*hop, &rule);
            let answer = given_back.charge(&part(&rule, *cost), now);
            let kept = if i == refunded { cost - back } else { *cost };
            if kept > 0 {
                // The newest charge's time is kept by both, so that both read a lagging clock alike.
                never.charge(&part(&rule, kept), answer.charged_at.expect("charged"));
            }
            times.extend(answer.charged_at);
            moments.note(now, answer);
        }
        let newest = *times.last().expect("two charges at least");
        // Another charge at that very time, or in that slot, would be given back in its stead: that is `agreement`'s.
        let back = back.min(charges[refunded].1);
        given_back.refund(&part(&rule, back), times[refunded], newest);
        for hop in later {
            let now = moments.at(hop, &rule).max(newest);
            let (one, two) = (given_back.peek(&part(&rule, 1), now), never.peek(&part(&rule, 1), now));
            prop_assert_eq!(one, two, "at {}, {} of {} charged at {} given back at {}", now, back, charges[refunded].1, times[refunded], newest);
            moments.now = now;
        }
    }

    #[test]
    fn a_debt_given_back_at_once_is_as_if_never_made(
        rule in scenes::rule_of(Just(Algo::Gcra)),
        start in scenes::start(),
        charges in prop::collection::vec((scenes::onward_hop(), scenes::price()), 1..10),
        cost in 1..=1_000i128,
    ) {
        let cost = cost.min(rule.storable());
        let mut gate = Tested::default();
        let mut moments = Moments::starting(start);
        for (hop, price) in charges {
            let now = moments.onward(hop, &rule);
            let answer = gate.check(&part(&rule, price.of(&rule, moments.last.as_ref())), now);
            moments.note(now, answer);
        }
        let now = moments.now;
        let before = gate.peek(&part(&rule, 1), now);
        let charged = gate.charge(&part(&rule, cost), now);
        let refunded = gate.refund(&part(&rule, cost), charged.charged_at.expect("charged"), now);
        prop_assert!(refunded.returned);
        prop_assert_eq!((refunded.remaining, refunded.reset_after), (before.remaining, before.reset_after));
        prop_assert_eq!(before, gate.peek(&part(&rule, 1), now));
    }

    #[test]
    fn a_refund_of_what_was_charged_later_than_the_newest_does_nothing(
        rule in scenes::rule(),
        start in scenes::start(),
        price in scenes::price(),
        later in prop_oneof![Just(1i128), 1..=1_000_000i128],
    ) {
        let mut gate = Tested::default();
        let at = gate.charge(&part(&rule, Price::Known(1).of(&rule, None)), start).charged_at.expect("charged");
        let before = gate.peek(&part(&rule, 1), start);
        let refunded = gate.refund(&part(&rule, price.of(&rule, None)), at + later, start + later + 1);
        prop_assert!(!refunded.returned);
        prop_assert_eq!(before, gate.peek(&part(&rule, 1), start));
    }
}
