//! Ours: every algorithm, with the default clock and a store of default configuration.

use tidegate::{Algorithm, Buckets, Cost, Key, Limit, Limiter, MemoryStore, Policy};

use super::{Contender, ContenderEntry, Quota};

pub(super) const ENTRIES: [ContenderEntry; 5] = [
    entry("tidegate sliding_log", |quota| build(quota, Algorithm::SlidingLog)),
    entry("tidegate sliding_counter", |quota| build(quota, Algorithm::SlidingCounter)),
    entry("tidegate sliding_buckets:10", |quota| build(quota, ten_buckets())),
    entry("tidegate fixed_window", |quota| build(quota, Algorithm::FixedWindow)),
    entry("tidegate gcra", |quota| build(quota, Algorithm::Gcra(None))),
];

const fn entry(name: &'static str, build: fn(Quota) -> Box<dyn Contender>) -> ContenderEntry {
    ContenderEntry { project: "tidegate", name, like: Some(name), build }
}

fn ten_buckets() -> Algorithm {
    Algorithm::SlidingBuckets(Buckets::new(10).expect("ten is a number of buckets"))
}

fn build(quota: Quota, algorithm: Algorithm) -> Box<dyn Contender> {
    let limit = Limit::new(u64::from(quota.max.get()), quota.window).expect("a valid limit");
    let policy = Policy::new("bench", [limit]).expect("a valid policy").with_algorithm(algorithm);
    let limiter = Limiter::new(MemoryStore::default());
    Box::new(move |key: &String| limiter.check(&policy, &Key::new(key).expect("a valid key"), Cost::ONE).is_allowed())
}
