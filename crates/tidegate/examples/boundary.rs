//! The requests that each algorithm admits of a burst one second before a window ends and a burst one second after.
//!
//! It uses a manual clock, so it does not wait.

use std::{error::Error, time::Duration};

use tidegate::{Algorithm, Buckets, Cost, Key, Limit, Limiter, ManualClock, MemoryStore, Policy, Timestamp};

/// A multiple of ten seconds.
const BOUNDARY: u64 = 1_745_000_100_000_000;
const BURST: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let limit: Limit = "50/10s".parse()?;
    println!("limit {limit}, {BURST} requests one second before a window ends and {BURST} one second after:\n");
    let algorithms = [
        Algorithm::FixedWindow,
        Algorithm::SlidingCounter,
        Algorithm::SlidingBuckets(Buckets::new(10)?),
        Algorithm::SlidingLog,
        Algorithm::Gcra(None),
    ];
    for algorithm in algorithms {
        let time = ManualClock::at(Timestamp::from_micros(BOUNDARY - 1_000_000));
        let limiter = Limiter::new(MemoryStore::default()).with_clock(time.clock());
        let policy = Policy::new("demo", [limit])?.with_algorithm(algorithm);
        let key = Key::new("client")?;
        let burst = || (0..BURST).filter(|_| limiter.check(&policy, &key, Cost::ONE).is_allowed()).count();

        let before = burst();
        time.advance(Duration::from_secs(2));
        let after = burst();
        let bar = "#".repeat(usize::midpoint(before, after));
        println!("{:>18}  {before} + {after:<2} = {:>3}  {bar}", algorithm.to_string(), before + after);
        let next = limiter.check(&policy, &key, Cost::ONE);
        if let Some(wait) = next.retry_after() {
            println!("{:>18}  the next one fits in {wait:?}", "");
        }
    }
    Ok(())
}
