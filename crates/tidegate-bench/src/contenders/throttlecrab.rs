//! throttlecrab as a library: GCRA in the store of its README, behind a mutex because it needs `&mut`.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use throttlecrab::{PeriodicStore, RateLimiter};

use super::{Contender, ContenderEntry, Quota};

pub(super) const ENTRY: ContenderEntry = ContenderEntry {
    project: "throttlecrab",
    name: "throttlecrab 0.4 + mutex",
    like: Some("tidegate gcra"),
    build: |quota| Box::new(Throttlecrab::new(quota)),
};

struct Throttlecrab {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    max: i64,
    seconds: i64,
}

impl Throttlecrab {
    fn new(quota: Quota) -> Self {
        Self {
            limiter: Mutex::new(RateLimiter::new(PeriodicStore::new())),
            max: i64::from(quota.max.get()),
            seconds: quota.window.as_secs().cast_signed(),
        }
    }
}

impl Contender for Throttlecrab {
    #[expect(clippy::disallowed_methods, reason = "the caller supplies the time")]
    fn decide(&self, key: &String) -> bool {
        let now = SystemTime::now();
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let result = limiter.rate_limit(key, self.max, self.max, self.seconds, 1, now);
        result.expect("valid parameters").0
    }
}
