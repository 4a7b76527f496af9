//! trypema: the local provider's absolute strategy with the 10 ms buckets of its documentation.

use std::sync::Arc;

use trypema::local::LocalRateLimiterProvider;
use trypema::{BucketSize, RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

use super::{Contender, ContenderEntry, Quota};

pub(super) const ENTRY: ContenderEntry = ContenderEntry {
    project: "trypema",
    name: "trypema 2.2",
    like: Some("tidegate sliding_buckets:10"),
    build: |quota| Box::new(Trypema::new(quota)),
};

struct Trypema {
    provider: Arc<LocalRateLimiterProvider>,
    rate: RateLimit,
}

impl Trypema {
    fn new(quota: Quota) -> Self {
        let provider = LocalRateLimiterProvider::builder()
            .window_size(WindowSize::seconds_or_panic(quota.window.as_secs()))
            .bucket_size(BucketSize::milliseconds_or_panic(10))
            .build()
            .expect("a valid provider");
        // The capacity is a float that is rounded down, so the unit must divide evenly.
        let per_hour = f64::from(quota.max.get()) * 3600.0 / quota.window.as_secs_f64();
        Self { provider, rate: RateLimit::per_hour_or_panic(per_hour) }
    }
}

impl Contender for Trypema {
    fn decide(&self, key: &String) -> bool {
        let decision = self.provider.absolute().inc(key, &self.rate, 1);
        matches!(decision, RateLimitDecision::Allowed)
    }
}
