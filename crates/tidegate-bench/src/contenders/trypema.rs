//! trypema: the local provider's absolute strategy with the 10 ms buckets of its documentation.

use trypema::local::LocalRateLimiterProvider;
use trypema::{BucketSize, RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

use super::{ContenderEntry, max};

pub(super) const ENTRY: ContenderEntry = ContenderEntry {
    project: "trypema",
    name: "trypema 2.2",
    like: Some("tidegate sliding_buckets:10"),
    build: |limit| {
        let provider = LocalRateLimiterProvider::builder()
            .window_size(WindowSize::seconds_or_panic(limit.window().as_secs()))
            .bucket_size(BucketSize::milliseconds_or_panic(10))
            .build()
            .expect("a valid provider");
        // The capacity is a float that is rounded down, so the unit must divide evenly.
        let rate = RateLimit::per_hour_or_panic(f64::from(max(limit)) * 3600.0 / limit.window().as_secs_f64());
        Box::new(move |key: &String| matches!(provider.absolute().inc(key, &rate, 1), RateLimitDecision::Allowed))
    },
};
