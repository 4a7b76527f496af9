//! rate-net: three of its algorithms in its default sharded store with its default clock.

use rate_net::{Algorithm, RateLimiter};

use super::{Contender, ContenderEntry, Quota};

pub(super) const ENTRIES: [ContenderEntry; 3] = [
    entry("rate-net 2.1 sliding log", "tidegate sliding_log", |quota| {
        Box::new(RateNet::new(quota, Algorithm::SlidingWindowLog))
    }),
    entry("rate-net 2.1 sliding counter", "tidegate sliding_counter", |quota| {
        Box::new(RateNet::new(quota, Algorithm::SlidingWindowCounter))
    }),
    entry("rate-net 2.1 token bucket", "tidegate gcra", |quota| Box::new(RateNet::new(quota, Algorithm::TokenBucket))),
];

const fn entry(name: &'static str, like: &'static str, build: fn(Quota) -> Box<dyn Contender>) -> ContenderEntry {
    ContenderEntry { project: "rate-net", name, like: Some(like), build }
}

struct RateNet {
    limiter: RateLimiter,
}

impl RateNet {
    fn new(quota: Quota, algorithm: Algorithm) -> Self {
        // Not `try_build`, which rejects a log above 65,536 requests. `build` accepts it.
        let limiter = RateLimiter::builder().algorithm(algorithm).quota(quota.max.get(), quota.window).build();
        Self { limiter }
    }
}

impl Contender for RateNet {
    fn decide(&self, key: &String) -> bool {
        self.limiter.check_bytes(key).is_allow()
    }
}
