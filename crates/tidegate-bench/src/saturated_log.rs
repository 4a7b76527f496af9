//! The memory of a logged request when the log is full: bytes per request.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::{Cost, Key, Limiter, ManualClock, MemoryStore, Policy, Timestamp};

use crate::measure::as_f64;
use crate::workload;

const KEYS: usize = 5_000;
const LIMIT: usize = 1_000;
const INTERVAL: Duration = Duration::from_millis(60);
const START_MICROS: u64 = 1_700_000_000_000_000;

/// Memory of `sliding_log` with a full window.
#[derive(Debug, Serialize, Deserialize)]
pub struct SaturatedLog {
    /// The number of keys with a full log.
    pub keys: usize,
    /// The limit of each.
    pub limit: String,
    /// Requests in the window of all keys together.
    pub requests: usize,
    /// Heap growth divided by those requests, including the slot of the key.
    pub bytes_per_request: f64,
}

/// Fills the logs with evenly spaced requests, then lets them slide by another window.
///
/// # Panics
/// If a request is denied: they are too far apart for that.
pub fn measure(live_bytes: fn() -> usize) -> SaturatedLog {
    let texts = workload::texts(&workload::shuffled(KEYS));
    let keys: Vec<_> = texts.iter().map(|text| Key::new(text).expect("a valid key")).collect();
    let limit = workload::limit(LIMIT as u64, 60);
    let policy = Policy::new("log", [limit]).expect("a valid policy");

    let before = live_bytes();
    let time = ManualClock::at(Timestamp::from_micros(START_MICROS));
    let limiter = Limiter::new(MemoryStore::default()).with_clock(time.clock());
    for _ in 0..2 * LIMIT {
        for key in &keys {
            let decision = limiter.check(&policy, key, Cost::ONE);
            assert!(decision.is_allowed(), "a request was denied below the limit");
        }
        time.advance(INTERVAL);
    }
    let bytes = live_bytes() - before;

    let requests = LIMIT * KEYS;
    SaturatedLog { keys: KEYS, limit: limit.to_string(), requests, bytes_per_request: as_f64(bytes) / as_f64(requests) }
}
