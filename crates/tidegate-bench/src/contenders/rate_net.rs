//! rate-net: three of its algorithms in its default sharded store with its default clock.

use rate_net::{Algorithm, RateLimiter};

use super::{Contender, ContenderEntry, Quota};

pub(super) const ENTRIES: [ContenderEntry; 3] = [
    entry("rate-net 2.1 sliding log", "tidegate sliding_log", |quota| build(quota, Algorithm::SlidingWindowLog)),
    entry("rate-net 2.1 sliding counter", "tidegate sliding_counter", |quota| {
        build(quota, Algorithm::SlidingWindowCounter)
    }),
    entry("rate-net 2.1 token bucket", "tidegate gcra", |quota| build(quota, Algorithm::TokenBucket)),
];

const fn entry(name: &'static str, like: &'static str, build: fn(Quota) -> Box<dyn Contender>) -> ContenderEntry {
    ContenderEntry { project: "rate-net", name, like: Some(like), build }
}

fn build(quota: Quota, algorithm: Algorithm) -> Box<dyn Contender> {
    // Not `try_build`, which rejects a log above 65,536 requests. `build` accepts it.
    let limiter = RateLimiter::builder().algorithm(algorithm).quota(quota.max.get(), quota.window).build();
    Box::new(move |key: &String| limiter.check_bytes(key).is_allow())
}
