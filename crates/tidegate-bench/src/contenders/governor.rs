//! governor: GCRA in its default keyed store (dashmap) with its default clock (quanta).

use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota};

use super::{ContenderEntry, max};

pub(super) const ENTRY: ContenderEntry = ContenderEntry {
    project: "governor",
    name: "governor 0.10",
    like: Some("tidegate sliding_counter"),
    build: |limit| {
        let max = NonZeroU32::new(max(limit)).expect("a limit is not zero");
        let quota = Quota::with_period(limit.window() / max.get()).expect("an interval above zero").allow_burst(max);
        let limiter = DefaultKeyedRateLimiter::keyed(quota);
        Box::new(move |key: &String| limiter.check_key(key).is_ok())
    },
};
