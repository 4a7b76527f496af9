//! The algorithms that are tried by default, and the promise of each.

use tidegate::{Algorithm, Buckets, Limit};

/// Returns the maximum number of units that an algorithm promises to admit in any window.
pub fn promised(algorithm: Algorithm, limit: Limit) -> u64 {
    let max = limit.max();
    match algorithm {
        Algorithm::SlidingLog | Algorithm::SlidingBuckets(_) => max,
        Algorithm::Gcra(Some(burst)) => max + burst.get(),
        _ => 2 * max,
    }
}

/// Returns one algorithm of each kind: `sliding_log`, `sliding_counter`, `sliding_buckets:10`, `fixed_window` and `gcra`.
pub fn one_of_each() -> Vec<Algorithm> {
    vec![Algorithm::SlidingLog, Algorithm::SlidingCounter, buckets(10), Algorithm::FixedWindow, Algorithm::Gcra(None)]
}

/// Returns the approximations of `sliding_log`: `sliding_counter` and `sliding_buckets` with 2, 10 and 60 buckets.
pub fn approximations() -> Vec<Algorithm> {
    vec![Algorithm::SlidingCounter, buckets(2), buckets(10), buckets(60)]
}

fn buckets(n: u64) -> Algorithm {
    Algorithm::SlidingBuckets(Buckets::new(n).expect("1 to 1000"))
}
