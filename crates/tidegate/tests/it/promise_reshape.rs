//! A changed window, number of buckets or algorithm: the history is kept, and alternating does not re-date it.

use proptest::prelude::*;
use proptest::sample::select;

use crate::duet::Duet;
use crate::gate::{Gate, Tested};
use crate::model::{Algo, Cap, Micros, Op, Part, Rule, Units, Verdict};
use crate::scenes::{self, Hop, Moments, Price};

type Request = (Op, Hop, Price);

fn requests(hop: impl Strategy<Value = Hop>, most: usize) -> impl Strategy<Value = Vec<Request>> {
    prop::collection::vec((scenes::op(), hop, scenes::price()), 1..most)
}

/// Asks both; `time` tells what time a hop means.
fn ask(
    duet: &mut Duet,
    rule: &Rule,
    request: Request,
    time: fn(&Moments, Hop, &Rule) -> Micros,
) -> Result<(), TestCaseError> {
    let (op, hop, price) = request;
    // As many units as can be charged to any shape: a debt that outgrows what can be stored is another test's.
    let cost = price.of(rule, duet.moments.last.as_ref()).min(20);
    let part = Part { name: (0, 0), rule: rule.clone(), cost };
    let now = time(&duet.moments, hop, rule);
    duet.decide(op, &part, now)
}

fn both_are_debts(rules: &[Rule]) -> bool {
    rules.iter().all(|rule| rule.algo == Algo::Gcra)
}

proptest! {
    #![proptest_config(scenes::config(1500))]

    #[test]
    fn a_changed_shape_keeps_the_history(
        rules in scenes::rules_of_one_limit(scenes::algo(), 2),
        start in scenes::start(),
        before in requests(scenes::any_hop(), 12),
        after in requests(scenes::any_hop(), 12),
    ) {
        prop_assume!(!both_are_debts(&rules));
        let mut duet = Duet::starting(start);
        for (rule, requests) in rules.iter().zip([before, after]) {
            for request in requests {
                ask(&mut duet, rule, request, Moments::at)?;
            }
        }
    }

    #[test]
    fn two_shapes_that_alternate_agree_on_what_was_charged_when(
        rules in scenes::rules_of_one_limit(scenes::algo(), 2),
        start in scenes::start(),
        requests in prop::collection::vec((0..2usize, requests(scenes::onward_hop(), 4)), scenes::steps(12)),
    ) {
        prop_assume!(!both_are_debts(&rules));
        let mut duet = Duet::starting(start);
        for (which, requests) in requests {
            for request in requests {
                ask(&mut duet, &rules[which], request, Moments::onward)?;
            }
        }
    }
}

proptest! {
    #![proptest_config(scenes::config(300))]

    /// What is in use, a whole number of units, becomes one charge now.
    #[test]
    fn a_debt_under_another_window_is_charged_anew(
        rules in scenes::rules_of_one_limit(Just(Algo::Gcra), 2),
        start in scenes::start(),
        before in requests(scenes::any_hop(), 12),
        after in requests(scenes::any_hop(), 12),
    ) {
        prop_assume!(!rules[0].same_shape(&rules[1]));
        let mut duet = Duet::starting(start);
        for (rule, requests) in rules.iter().zip([before, after]) {
            for request in requests {
                ask(&mut duet, rule, request, Moments::at)?;
            }
        }
    }
}

/// Two policies of as many limits, one of them gcra; some windows the same, in any order.
fn to_or_from_gcra() -> impl Strategy<Value = [Rule; 2]> {
    let windows = || prop::sample::subsequence(vec![1_000i128, 1_003, 10_000, 1_000_000], 2).prop_shuffle();
    let other = scenes::algo().prop_filter("gcra is the other's", |algo| *algo != Algo::Gcra);
    let maxes = prop::collection::vec(1..=12i128, 4);
    (other, windows(), windows(), maxes, any::<bool>()).prop_map(|(other, one, two, maxes, to)| {
        let caps = |windows: &[Micros], maxes: &[Units]| {
            windows.iter().zip(maxes).map(|(window, max)| Cap::new(*max, *window)).collect()
        };
        let (debt, other) = (Rule::new(Algo::Gcra, caps(&one, &maxes[..2])), Rule::new(other, caps(&two, &maxes[2..])));
        // The limits of a log share one history, which can't hold another number of units now for each.
        if to || other.algo == Algo::Log { [other, debt] } else { [debt, other] }
    })
}

proptest! {
    #![proptest_config(scenes::config(500))]

    #[test]
    fn limits_are_matched_by_window_then_by_position(
        rules in to_or_from_gcra(),
        start in scenes::start(),
        before in requests(scenes::onward_hop(), 12),
        after in requests(scenes::onward_hop(), 12),
    ) {
        let mut duet = Duet::starting(start);
        for (rule, requests) in rules.iter().zip([before, after]) {
            for request in requests {
                ask(&mut duet, rule, request, Moments::onward)?;
            }
        }
    }
}

/// Two policies of the same windows, in another order and of another algorithm.
fn two_shapes() -> impl Strategy<Value = (Rule, Rule)> {
    let algo = || {
        let buckets = select(vec![1i128, 3, 7, 10]).prop_map(Algo::Buckets);
        prop_oneof![2 => Just(Algo::Log), 2 => buckets, 1 => Just(Algo::Counter), 1 => Just(Algo::Fixed)]
    };
    let caps = prop::sample::subsequence(vec![1_000i128, 1_003, 10_000, 1_000_000, 60_000_000], 2..=3).prop_flat_map(
        |windows| {
            let count = windows.len();
            prop::collection::vec(1..=12i128, count)
                .prop_map(move |maxes| windows.iter().zip(maxes).map(|(w, max)| Cap::new(max, *w)).collect::<Vec<_>>())
        },
    );
    (algo(), algo(), caps).prop_flat_map(|(one, two, caps)| {
        (Just(Rule::new(one, caps.clone())), Just(caps).prop_shuffle().prop_map(move |caps| Rule::new(two, caps)))
    })
}

proptest! {
    #![proptest_config(scenes::config(1500))]

    #[test]
    fn several_limits_that_change_shape_hold_what_both_shapes_promise(
        (one, two) in two_shapes(),
        start in scenes::start(),
        requests in prop::collection::vec((prop::bool::weighted(0.3), scenes::onward_hop(), scenes::price()), scenes::steps(60)),
    ) {
        let mut gate = Tested::default();
        let mut moments = Moments::starting(start);
        let mut charges: Vec<(Micros, Units)> = Vec::new();
        let mut now_one = true;
        for (turn, hop, price) in requests {
            now_one ^= turn;
            let rule = if now_one { &one } else { &two };
            let now = moments.onward(hop, rule);
            let part = Part { name: (0, 0), rule: rule.clone(), cost: price.of(rule, moments.last.as_ref()) };
            let answer = gate.check(&part, now);
            if answer.verdict == Verdict::Allowed {
                charges.push((answer.charged_at.expect("an admitted check is charged"), part.cost));
            }
            moments.note(now, answer);
        }
        let exact = |algo: Algo| matches!(algo, Algo::Log | Algo::Buckets(_));
        let times = if exact(one.algo) && exact(two.algo) { 1 } else { 2 };
        for cap in &one.caps {
            for (end, _) in &charges {
                let held: Units =
                    charges.iter().filter(|(at, _)| end - cap.window < *at && at <= end).map(|(_, units)| units).sum();
                prop_assert!(held <= times * cap.max, "{} in the {:?} up to {} of {:?}", held, cap, end, charges);
            }
        }
    }
}
