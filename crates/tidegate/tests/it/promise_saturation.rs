//! Stored numbers and waits saturate at 9 * 10^15: what is told of a debt is told of what is stored.

use proptest::prelude::*;
use proptest::sample::select;

use crate::duet::Duet;
use crate::model::{Algo, Cap, Part, Rule};
use crate::scenes;

proptest! {
    #![proptest_config(scenes::config(100))]

    #[test]
    fn a_debt_that_outgrows_what_can_be_stored_is_told_as_it_is_stored(
        max in 1..=3i128,
        window in select(vec![1_000_000i128, 3_600_000_000, 31_622_400_000_000]),
        capacity in select(vec![1i128, 284, 1_000_000, 10_000_000_000, 1_000_000_000_000]),
        start in scenes::start(),
        requests in prop::collection::vec(
            (scenes::op(), scenes::onward_hop(), select(vec![1i128, 100, 285, 1_000_000_000, 1_000_000_000_000])),
            1..12,
        ),
    ) {
        // A burst that takes longer to drain than can be stored is as good as the largest that doesn't.
        let capacity = capacity.min(9_000_000_000_000_000 * max / window);
        let rule = Rule::new(Algo::Gcra, vec![Cap { max, window, capacity }]);
        let mut duet = Duet::starting(start);
        for (op, hop, cost) in requests {
            let now = duet.moments.onward(hop, &rule);
            duet.decide(op, &Part { name: (0, 0), rule: rule.clone(), cost }, now)?;
        }
    }
}
