//! Ours: every algorithm, with the default clock and a store of default configuration.

use tidegate::{Algorithm, Buckets, Cost, Key, Limit, Limiter, MemoryStore, Policy};

use super::{Contender, ContenderEntry};

pub(super) const ENTRIES: [ContenderEntry; 5] = [
    entry("tidegate sliding_log", |limit| build(limit, Algorithm::SlidingLog)),
    entry("tidegate sliding_counter", |limit| build(limit, Algorithm::SlidingCounter)),
    entry("tidegate sliding_buckets:10", |limit| build(limit, ten_buckets())),
    entry("tidegate fixed_window", |limit| build(limit, Algorithm::FixedWindow)),
    entry("tidegate gcra", |limit| build(limit, Algorithm::Gcra(None))),
];

const fn entry(name: &'static str, build: fn(Limit) -> Box<dyn Contender>) -> ContenderEntry {
    ContenderEntry { project: "tidegate", name, like: Some(name), build }
}

fn ten_buckets() -> Algorithm {
    Algorithm::SlidingBuckets(Buckets::new(10).expect("ten is a number of buckets"))
}

fn build(limit: Limit, algorithm: Algorithm) -> Box<dyn Contender> {
    let policy = Policy::new("bench", [limit]).expect("a valid policy").with_algorithm(algorithm);
    let limiter = Limiter::new(MemoryStore::default());
    Box::new(move |key: &String| limiter.check(&policy, &Key::new(key).expect("a valid key"), Cost::ONE).is_allowed())
}
