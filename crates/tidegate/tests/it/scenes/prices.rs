//! Random costs: one, small, at what remains and at the capacity and beside them, huge.
//!
//! A debt that outgrows what can be stored saturates; that is `promise_saturation`'s, and kept out of the other scenes.

use proptest::prelude::*;

use crate::model::{Algo, Answer, Rule, Units};

const LARGEST: Units = 1_000_000_000_000;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Price {
    Known(Units),
    Remaining(Units),
    Capacity(usize, Units),
    HalfOfCapacity(usize),
}

pub(crate) fn price() -> impl Strategy<Value = Price> {
    let beside = -1..=1i128;
    prop_oneof![
        5 => Just(Price::Known(1)),
        3 => (1..=5i128).prop_map(Price::Known),
        3 => beside.clone().prop_map(Price::Remaining),
        2 => (0..3usize, beside).prop_map(|(limit, beside)| Price::Capacity(limit, beside)),
        2 => (0..3usize).prop_map(Price::HalfOfCapacity),
        1 => (LARGEST - 1..=LARGEST).prop_map(Price::Known),
    ]
}

/// The largest cost of which a scene's charges don't saturate a debt: the more steps it has, the smaller.
fn largest_debt(rule: &Rule) -> Units {
    let times = super::number("TIDEGATE_STEPS").map_or(1, |steps| Units::try_from(steps / 60).expect("few") + 1);
    (rule.storable() / times).clamp(1, LARGEST)
}

impl Price {
    /// The cost, given the policy and its last answer.
    pub(crate) fn of(self, rule: &Rule, last: Option<&Answer>) -> Units {
        let capacity = |limit: usize| rule.caps[limit % rule.caps.len()].capacity;
        match self {
            Self::Known(cost) => cost,
            Self::Remaining(beside) => last.map_or(capacity(0), |answer| answer.remaining) + beside,
            Self::Capacity(limit, beside) => capacity(limit) + beside,
            Self::HalfOfCapacity(limit) => capacity(limit) / 2,
        }
        .clamp(1, if rule.algo == Algo::Gcra { largest_debt(rule) } else { LARGEST })
    }
}
