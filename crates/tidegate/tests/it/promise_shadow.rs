//! A shadow policy holds what an enforcing one would, never denies, and says what an enforcing one would have said.

use proptest::prelude::*;

use crate::gate::{Gate, Tested};
use crate::model::{Answer, Op, Part, Rule, Verdict};
use crate::scenes::{self, Moments};

proptest! {
    #![proptest_config(scenes::config(800))]

    #[test]
    fn a_shadow_is_the_twin_of_an_enforcing_policy(
        rule in scenes::rule(),
        start in scenes::start(),
        requests in prop::collection::vec((scenes::op(), scenes::any_hop(), scenes::price()), scenes::steps(30)),
    ) {
        let shadow = Rule { shadow: true, ..rule.clone() };
        let (mut watching, mut enforcing) = (Tested::default(), Tested::default());
        let mut moments = Moments::starting(start);
        for (op, hop, price) in requests {
            let cost = price.of(&rule, moments.last.as_ref());
            let now = moments.at(hop, &rule);
            let watched = watching.decide(op, &Part { name: (0, 0), rule: shadow.clone(), cost }, now);
            let enforced = enforcing.decide(op, &Part { name: (0, 0), rule: rule.clone(), cost }, now);
            let told = match enforced.verdict {
                Verdict::Allowed => enforced,
                _ => Answer { verdict: Verdict::Shadow, ..enforced },
            };
            prop_assert_eq!(watched, told, "{:?} of {} at {}", op, cost, now);
            moments.note(now, enforced);
        }
    }

    #[test]
    fn a_shadow_never_vetoes(
        rule in scenes::rule(),
        watching in scenes::rule(),
        start in scenes::start(),
        requests in prop::collection::vec((scenes::onward_hop(), scenes::price(), scenes::price()), scenes::steps(30)),
    ) {
        let watching = Rule { shadow: true, ..watching };
        let (mut both, mut alone) = (Tested::default(), Tested::default());
        let mut moments = Moments::starting(start);
        for (hop, price, other) in requests {
            let part = Part { name: (0, 0), rule: rule.clone(), cost: price.of(&rule, moments.last.as_ref()) };
            let shadow = Part { name: (1, 0), rule: watching.clone(), cost: other.of(&watching, moments.last.as_ref()) };
            let now = moments.onward(hop, &rule);
            let together = both.decide_all(Op::Check, &[shadow, part.clone()], now);
            let without = alone.check(&part, now);
            let own = Answer { part: 0, ..together.parts[1] };
            prop_assert_eq!(own, without, "beside a shadow left, alone right");
            let vetoed = matches!(together.overall.verdict, Verdict::Limited | Verdict::Impossible);
            prop_assert_eq!(vetoed, without.verdict != Verdict::Allowed);
            moments.note(now, without);
        }
    }
}
