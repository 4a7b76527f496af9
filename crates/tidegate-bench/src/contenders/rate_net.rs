//! rate-net: three of its algorithms in its default sharded store with its default clock.

use rate_net::{Algorithm, RateLimiter};
use tidegate::Limit;

use super::{Contender, ContenderEntry, max};

pub(super) const ENTRIES: [ContenderEntry; 3] = [
    entry("rate-net 2.1 sliding log", "tidegate sliding_log", |limit| build(limit, Algorithm::SlidingWindowLog)),
    entry("rate-net 2.1 sliding counter", "tidegate sliding_counter", |limit| {
        build(limit, Algorithm::SlidingWindowCounter)
    }),
    entry("rate-net 2.1 token bucket", "tidegate gcra", |limit| build(limit, Algorithm::TokenBucket)),
];

const fn entry(name: &'static str, like: &'static str, build: fn(Limit) -> Box<dyn Contender>) -> ContenderEntry {
    ContenderEntry { project: "rate-net", name, like: Some(like), build }
}

fn build(limit: Limit, algorithm: Algorithm) -> Box<dyn Contender> {
    // Not `try_build`, which rejects a log above 65,536 requests. `build` accepts it.
    let limiter = RateLimiter::builder().algorithm(algorithm).quota(max(limit), limit.window()).build();
    Box::new(move |key: &String| limiter.check_bytes(key).is_allow())
}
