//! The library tells what the model tells, in every field of every answer, whatever is asked and whenever.

use proptest::prelude::*;

use crate::duet::Duet;
use crate::model::{Algo, CEILING, Cap, Micros, Op, Part, Rule, Units};
use crate::scenes::{self, Hop, Price};

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(Op, Hop, Price),
    Refund { hop: Hop, charge: usize, beside: Micros, price: Price },
    SetMax([Units; 3]),
    Reset,
}

fn set_max() -> impl Strategy<Value = Step> {
    [scenes::fresh_max(), scenes::fresh_max(), scenes::fresh_max()].prop_map(Step::SetMax)
}

fn step() -> impl Strategy<Value = Step> {
    let refund = (scenes::any_hop(), 0..6usize, prop_oneof![4 => Just(0i128), 1 => -1..=1i128], scenes::price());
    prop_oneof![
        16 => (scenes::op(), scenes::any_hop(), scenes::price()).prop_map(|(op, hop, price)| Step::Ask(op, hop, price)),
        4 => refund.prop_map(|(hop, charge, beside, price)| Step::Refund { hop, charge, beside, price }),
        1 => set_max(),
        1 => Just(Step::Reset),
    ]
}

/// The policy with other maxes. A burst that was said stays.
fn with_maxes(rule: &Rule, maxes: [Units; 3]) -> Rule {
    let burst_unsaid = rule.caps.iter().all(|cap| cap.capacity == cap.max);
    let changed = |(cap, max): (&Cap, Units)| {
        // No burst beyond what a debt can hold at that max.
        let capacity = if burst_unsaid { max } else { cap.capacity.min(CEILING * max / cap.window) };
        Cap { max, capacity, ..*cap }
    };
    Rule { caps: rule.caps.iter().zip(maxes).map(changed).collect(), ..rule.clone() }
}

fn take(duet: &mut Duet, rule: &mut Rule, step: Step) -> Result<(), TestCaseError> {
    let part = |duet: &Duet, price: Price| Part {
        name: (0, 0),
        rule: rule.clone(),
        cost: price.of(rule, duet.moments.last.as_ref()),
    };
    match step {
        Step::Ask(op, hop, price) => {
            let now = duet.moments.at(hop, rule);
            duet.decide(op, &part(duet, price), now)
        }
        Step::Refund { hop, charge, beside, price } => {
            let now = duet.moments.at(hop, rule);
            let charged_at = (duet.moments.charge(charge) + beside).max(0);
            duet.refund(&part(duet, price), charged_at, now)
        }
        Step::SetMax(maxes) => {
            *rule = with_maxes(rule, maxes);
            Ok(())
        }
        Step::Reset => duet.reset(&part(duet, Price::Known(1))),
    }
}

proptest! {
    #![proptest_config(scenes::config(2500))]

    #[test]
    fn the_library_tells_what_the_model_tells(
        rule in scenes::rule(),
        start in scenes::start(),
        steps in prop::collection::vec(step(), scenes::steps(30)),
    ) {
        let mut rule = rule;
        let mut duet = Duet::starting(start);
        for step in steps {
            // A debt under another max is the next test's.
            if rule.algo != Algo::Gcra || !matches!(step, Step::SetMax(_)) {
                take(&mut duet, &mut rule, step)?;
            }
        }
    }

    /// The max applies at once, to the debt as it is: `used = ceil(debt * max / window)`.
    #[test]
    fn a_debt_stays_what_it_is_under_another_max(
        rule in scenes::rule_of(Just(Algo::Gcra)),
        start in scenes::start(),
        steps in prop::collection::vec(prop_oneof![2 => step(), 1 => set_max()], scenes::steps(20)),
    ) {
        let mut rule = rule;
        let mut duet = Duet::starting(start);
        for step in steps {
            take(&mut duet, &mut rule, step)?;
        }
    }
}
