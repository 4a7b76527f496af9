//! What each algorithm promises about any window on the time line, read off the admitted charges alone.

use proptest::prelude::*;

use crate::gate::{Gate, Tested};
use crate::model::{Algo, Cap, Micros, Part, Rule, Units, Verdict};
use crate::scenes::{self, Hop, Moments, Price};

/// The units charged in (from, to].
fn charged_within(charges: &[(Micros, Units)], from: Micros, to: Micros) -> Units {
    charges.iter().filter(|(at, _)| from < *at && *at <= to).map(|(_, units)| units).sum()
}

/// The most that a window may hold.
fn promised(algo: Algo, cap: Cap) -> Units {
    match algo {
        Algo::Log | Algo::Buckets(_) => cap.max,
        Algo::Counter | Algo::Fixed => 2 * cap.max,
        Algo::Gcra => cap.max + cap.capacity,
    }
}

/// Every request is a check; what was admitted, when and how much.
fn admitted(rule: &Rule, start: Micros, requests: &[(Hop, Price)]) -> Vec<(Micros, Units)> {
    let mut gate = Tested::default();
    let mut moments = Moments::starting(start);
    let mut charges = Vec::new();
    for (hop, price) in requests {
        let cost = price.of(rule, moments.last.as_ref());
        let now = moments.onward(*hop, rule);
        let answer = gate.check(&Part { name: (0, 0), rule: rule.clone(), cost }, now);
        if answer.verdict == Verdict::Allowed {
            charges.push((answer.charged_at.expect("an admitted check is charged"), cost));
        }
        moments.note(now, answer);
    }
    charges
}

fn requests() -> impl Strategy<Value = Vec<(Hop, Price)>> {
    prop::collection::vec((scenes::onward_hop(), scenes::price()), scenes::steps(60))
}

proptest! {
    #![proptest_config(scenes::config(1000))]

    #[test]
    fn no_window_holds_more_than_promised(
        rule in scenes::rule(),
        start in scenes::start(),
        requests in requests(),
    ) {
        let charges = admitted(&rule, start, &requests);
        for cap in &rule.caps {
            for (end, _) in &charges {
                let held = charged_within(&charges, end - cap.window, *end);
                prop_assert!(held <= promised(rule.algo, *cap), "{} in the {:?} up to {} of {:?}", held, cap, end, charges);
            }
        }
    }

    #[test]
    fn the_log_holds_what_the_window_holds_and_a_bucket_no_more_than_a_slot_longer(
        rule in scenes::rule_of(prop_oneof![Just(Algo::Log), (1..=1_000i128).prop_map(Algo::Buckets), Just(Algo::Buckets(7))]),
        start in scenes::start(),
        requests in requests(),
    ) {
        let mut rule = rule;
        rule.caps.truncate(1);
        let cap = rule.caps[0];
        let longer = match rule.algo {
            Algo::Buckets(n) => (cap.window + n - 1) / n,
            _ => 0,
        };
        let mut gate = Tested::default();
        let mut moments = Moments::starting(start);
        let mut charges = Vec::new();
        for (i, (hop, price)) in requests.iter().enumerate() {
            let part = Part { name: (0, 0), rule: rule.clone(), cost: price.of(&rule, moments.last.as_ref()) };
            let now = moments.onward(*hop, &rule);
            let answer = if i % 2 == 0 { gate.check(&part, now) } else { gate.peek(&part, now) };
            charges.extend(answer.charged_at.map(|at| (at, part.cost)));
            let read = charges.last().map_or(now, |(newest, _)| now.max(*newest));
            let least = charged_within(&charges, read - cap.window, read);
            let most = charged_within(&charges, read - cap.window - longer, read);
            prop_assert!((least..=most).contains(&answer.used), "{} in use at {}, of {:?}", answer.used, read, charges);
            moments.note(now, answer);
        }
    }
}
