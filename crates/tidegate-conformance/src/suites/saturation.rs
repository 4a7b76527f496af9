//! Stored numbers and waits saturate at 9 * 10^15.

use proptest::prelude::*;
use proptest::sample::select;

use crate::comparison::Comparison;
use crate::generators;
use crate::model::{MAX_STORED, ModelAlgorithm, ModelLimit, ModelPolicy, ModelRequest};
use crate::property::check;
use crate::{StoreUnderTest, settings};

/// Answers about a gcra debt above the largest stored number describe the stored number.
///
/// # Panics
/// If the store breaks this promise.
pub fn a_gcra_debt_saturates<S: StoreUnderTest>() {
    let cost = select(vec![1i128, 100, 285, 1_000_000_000, 1_000_000_000_000]);
    let cases = (
        1..=3i128,
        select(vec![1_000_000i128, 3_600_000_000, 31_622_400_000_000]),
        select(vec![1i128, 284, 1_000_000, 10_000_000_000, 1_000_000_000_000]),
        generators::start_time(),
        prop::collection::vec((generators::op(), generators::time_step(), cost), 1..12),
    );
    let promise = "a gcra debt saturates at the largest stored number";
    check::<S, _>(promise, settings::config(100), &cases, |(max, window, capacity, start, requests)| {
        // A larger burst than can be stored equals the largest burst that can.
        let capacity = capacity.min(MAX_STORED * max / window);
        let policy = ModelPolicy::new(ModelAlgorithm::Gcra, vec![ModelLimit { max, window, capacity }]);
        let mut comparison = Comparison::<S>::new(start);
        for (op, time_step, cost) in requests {
            let now = comparison.timeline.time_not_far_behind(time_step, &policy);
            comparison.decide(op, &ModelRequest::new(&policy, cost), now)?;
        }
        Ok(())
    });
}
