//! governor: GCRA in its default keyed store (dashmap) with its default clock (quanta).

use governor::DefaultKeyedRateLimiter;

use super::{Contender, ContenderEntry, Quota};

pub(super) const ENTRY: ContenderEntry = ContenderEntry {
    project: "governor",
    name: "governor 0.10",
    like: Some("tidegate sliding_counter"),
    build: |quota| Box::new(Governor::new(quota)),
};

struct Governor {
    limiter: DefaultKeyedRateLimiter<String>,
}

impl Governor {
    fn new(quota: Quota) -> Self {
        let interval = quota.window / quota.max.get();
        let quota = governor::Quota::with_period(interval).expect("an interval above zero").allow_burst(quota.max);
        Self { limiter: DefaultKeyedRateLimiter::keyed(quota) }
    }
}

impl Contender for Governor {
    fn decide(&self, key: &String) -> bool {
        self.limiter.check_key(key).is_ok()
    }
}
