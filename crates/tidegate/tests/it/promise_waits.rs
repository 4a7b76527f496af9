//! Waits are exact: a request is admitted after `retry_after`, nothing is in use after `reset_after`, and not a
//! microsecond earlier.

use proptest::prelude::*;

use crate::gate::{Gate, Tested};
use crate::model::{CEILING, Op, Part, Verdict};
use crate::scenes::{self, Moments};

proptest! {
    #![proptest_config(scenes::config(1000))]

    #[test]
    fn a_caller_who_waits_is_admitted_and_one_who_comes_a_microsecond_early_is_not(
        rule in scenes::rule(),
        start in scenes::start(),
        requests in prop::collection::vec((scenes::op(), scenes::any_hop(), scenes::price()), scenes::steps(30)),
    ) {
        let mut gate = Tested::default();
        let mut moments = Moments::starting(start);
        for (op, hop, price) in requests {
            let part = Part { name: (0, 0), rule: rule.clone(), cost: price.of(&rule, moments.last.as_ref()) };
            let now = moments.at(hop, &rule);
            let answer = gate.decide(op, &part, now);
            if let Some(wait) = answer.retry_after.filter(|wait| now + *wait < CEILING) {
                prop_assert_eq!(answer.verdict, Verdict::Limited);
                prop_assert!(wait > 0, "told to come back at once: {:?}", answer);
                // A peek writes nothing down, so that what it saw of a far lag is not what a later one sees.
                let written = op != Op::Peek || moments.charged.last().is_none_or(|newest| *newest <= now);
                if written {
                    let early = gate.peek(&part, now + wait - 1);
                    prop_assert_eq!((early.verdict, early.retry_after), (Verdict::Limited, Some(1)), "{:?} at {}", answer, now);
                    prop_assert_eq!(gate.peek(&part, now + wait).verdict, Verdict::Allowed, "{:?} at {}", answer, now);
                }
            } else {
                prop_assert!(answer.verdict != Verdict::Limited || answer.retry_after.is_some());
            }
            moments.note(now, answer);
        }
    }

    #[test]
    fn nothing_is_in_use_at_reset_after_and_something_is_a_microsecond_earlier(
        rule in scenes::rule(),
        start in scenes::start(),
        requests in prop::collection::vec((scenes::onward_hop(), scenes::price()), scenes::steps(30)),
    ) {
        let mut gate = Tested::default();
        let mut moments = Moments::starting(start);
        let least_capacity = rule.caps.iter().map(|cap| cap.capacity).min().expect("a policy has a limit");
        for (hop, price) in requests {
            let part = Part { name: (0, 0), rule: rule.clone(), cost: price.of(&rule, moments.last.as_ref()) };
            let now = moments.onward(hop, &rule);
            let answer = gate.check(&part, now);
            moments.note(now, answer);
            let wait = answer.reset_after;
            if now + wait >= CEILING {
                continue;
            }
            let empty = gate.peek(&part, now + wait);
            prop_assert_eq!((empty.used, empty.reset_after, empty.remaining), (0, 0, least_capacity), "{:?} at {}", answer, now);
            if wait > 0 {
                prop_assert_eq!(gate.peek(&part, now + wait - 1).reset_after, 1, "{:?} at {}", answer, now);
            }
        }
    }
}
