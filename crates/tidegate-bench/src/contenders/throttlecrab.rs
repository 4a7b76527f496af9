//! throttlecrab as a library: GCRA in the store of its README, behind a mutex because it needs `&mut`.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use throttlecrab::{PeriodicStore, RateLimiter};

use super::{ContenderEntry, max};

pub(super) const ENTRY: ContenderEntry = ContenderEntry {
    project: "throttlecrab",
    name: "throttlecrab 0.4 + mutex",
    like: Some("tidegate gcra"),
    build: |limit| {
        let limiter = Mutex::new(RateLimiter::new(PeriodicStore::new()));
        let (max, seconds) = (i64::from(max(limit)), limit.window().as_secs().cast_signed());
        #[expect(clippy::disallowed_methods, reason = "the caller supplies the time")]
        Box::new(move |key: &String| {
            let now = SystemTime::now();
            let mut limiter = limiter.lock().unwrap_or_else(PoisonError::into_inner);
            limiter.rate_limit(key, max, max, seconds, 1, now).expect("valid parameters").0
        })
    },
};
