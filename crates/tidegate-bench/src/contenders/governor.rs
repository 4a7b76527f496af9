//! governor: GCRA in its default keyed store (dashmap) with its default clock (quanta).

use governor::DefaultKeyedRateLimiter;

use super::ContenderEntry;

pub(super) const ENTRY: ContenderEntry = ContenderEntry {
    project: "governor",
    name: "governor 0.10",
    like: Some("tidegate sliding_counter"),
    build: |quota| {
        let interval = quota.window / quota.max.get();
        let quota = governor::Quota::with_period(interval).expect("an interval above zero").allow_burst(quota.max);
        let limiter = DefaultKeyedRateLimiter::keyed(quota);
        Box::new(move |key: &String| limiter.check_key(key).is_ok())
    },
};
