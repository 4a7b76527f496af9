//! Random policies, costs and times that look for errors at boundaries.
//!
//! A time or a cost is generated as an intention ("one microsecond before the oldest charge leaves the window", "all
//! that remains and one more"). It is turned into a number as the history unfolds, so that it keeps its meaning while
//! proptest shrinks a failure.

mod costs;
mod policies;
mod times;

pub use costs::{CostChoice, cost};
pub(crate) use policies::two_policies;
pub use policies::{algorithm, max, policy, policy_of, single_limit_policies};
pub use times::{TimeStep, Timeline, any_time_step, idle_time_step, start_time, time_step};

use proptest::prelude::*;
use tidegate::Op;

/// Generates mostly checks, and some peeks and charges.
pub fn op() -> impl Strategy<Value = Op> {
    prop_oneof![6 => Just(Op::Check), 2 => Just(Op::Peek), 1 => Just(Op::Charge)]
}
