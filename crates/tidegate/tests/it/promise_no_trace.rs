//! A denied request and a peek leave no trace; a peek tells what a check would.

use proptest::prelude::*;

use crate::gate::{Gate, Tested};
use crate::model::{Op, Part, Verdict};
use crate::scenes::{self, Moments};

proptest! {
    #![proptest_config(scenes::config(800))]

    #[test]
    fn whoever_was_never_asked_but_what_was_admitted_tells_the_same(
        rule in scenes::rule(),
        start in scenes::start(),
        requests in prop::collection::vec((scenes::op(), scenes::onward_hop(), scenes::price()), scenes::steps(40)),
    ) {
        let (mut asked, mut spared) = (Tested::default(), Tested::default());
        let mut moments = Moments::starting(start);
        let mut latest = start;
        for (op, hop, price) in requests {
            let part = Part { name: (0, 0), rule: rule.clone(), cost: price.of(&rule, moments.last.as_ref()) };
            let newest = moments.charged.last().copied().unwrap_or(0);
            // What was forgotten when its windows had passed reads a lagging clock as it is.
            let forgettable = latest - newest >= rule.longest_window();
            let now = moments.onward(hop, &rule).max(if forgettable { newest } else { 0 });
            latest = latest.max(now);
            let answer = asked.decide(op, &part, now);
            if op != Op::Peek && answer.verdict == Verdict::Allowed {
                prop_assert_eq!(answer, spared.decide(op, &part, now), "{:?} of {} at {}", op, part.cost, now);
            } else {
                prop_assert_eq!(answer.charged_at, None);
            }
            moments.note(now, answer);
        }
        let newest = moments.charged.last().copied().unwrap_or(0);
        for later in [0, 1, rule.caps[0].window / 2, rule.caps[0].window] {
            let part = Part { name: (0, 0), rule: rule.clone(), cost: 1 };
            prop_assert_eq!(asked.peek(&part, newest + later), spared.peek(&part, newest + later));
        }
    }

    #[test]
    fn a_peek_tells_what_a_check_does(
        rule in scenes::rule(),
        start in scenes::start(),
        requests in prop::collection::vec((scenes::any_hop(), scenes::price()), scenes::steps(40)),
    ) {
        let mut gate = Tested::default();
        let mut moments = Moments::starting(start);
        for (hop, price) in requests {
            let part = Part { name: (0, 0), rule: rule.clone(), cost: price.of(&rule, moments.last.as_ref()) };
            let now = moments.at(hop, &rule);
            let peeked = gate.peek(&part, now);
            prop_assert_eq!(peeked, gate.peek(&part, now), "a peek leaves no trace");
            let checked = gate.check(&part, now);
            if checked.verdict == Verdict::Allowed {
                let before = (peeked.verdict, peeked.remaining, peeked.retry_after, peeked.charged_at);
                prop_assert_eq!(before, (Verdict::Allowed, checked.remaining + part.cost, None, None));
                prop_assert!(checked.charged_at.is_some() && peeked.reset_after <= checked.reset_after);
            } else {
                prop_assert_eq!(peeked, checked);
            }
            moments.note(now, checked);
        }
    }
}
