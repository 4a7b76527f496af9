//! Random costs: one, small, huge, and the remaining units and the capacity with their neighbours.
//!
//! A debt above the largest stored number saturates. The suite `saturation` checks that. The other suites avoid it.

use proptest::prelude::*;

use crate::model::{ModelAlgorithm, ModelDecision, ModelPolicy, Units};
use crate::settings;

const MAX_COST: Units = 1_000_000_000_000;

/// A cost as an intention.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum CostChoice {
    /// This number of units.
    Units(Units),
    /// The units that remained after the last decision, plus an offset.
    Remaining(Units),
    /// The capacity of a limit, plus an offset.
    Capacity(usize, Units),
    /// Half of the capacity of a limit.
    HalfOfCapacity(usize),
}

/// Generates costs.
pub fn cost() -> impl Strategy<Value = CostChoice> {
    let offset = -1..=1i128;
    prop_oneof![
        5 => Just(CostChoice::Units(1)),
        3 => (1..=5i128).prop_map(CostChoice::Units),
        3 => offset.clone().prop_map(CostChoice::Remaining),
        2 => (0..3usize, offset).prop_map(|(limit, offset)| CostChoice::Capacity(limit, offset)),
        2 => (0..3usize).prop_map(CostChoice::HalfOfCapacity),
        1 => (MAX_COST - 1..=MAX_COST).prop_map(CostChoice::Units),
    ]
}

/// The largest cost with which the charges of a history don't saturate a debt. It falls with the number of steps.
fn max_debt_cost(policy: &ModelPolicy) -> Units {
    let factor = settings::number("TIDEGATE_STEPS").map_or(1, |steps| Units::try_from(steps / 60).expect("few") + 1);
    (policy.storable() / factor).clamp(1, MAX_COST)
}

impl CostChoice {
    /// Returns the cost under a policy, after its last decision.
    pub fn units(self, policy: &ModelPolicy, last: Option<&ModelDecision>) -> Units {
        let capacity = |limit: usize| policy.limits[limit % policy.limits.len()].capacity;
        let max_cost = if policy.algorithm == ModelAlgorithm::Gcra { max_debt_cost(policy) } else { MAX_COST };
        match self {
            Self::Units(units) => units,
            Self::Remaining(offset) => last.map_or(capacity(0), |decision| decision.remaining) + offset,
            Self::Capacity(limit, offset) => capacity(limit) + offset,
            Self::HalfOfCapacity(limit) => capacity(limit) / 2,
        }
        .clamp(1, max_cost)
    }
}
