//! Time: the only place in this crate that reads the clock or sleeps.

use std::time::{Duration, Instant};

/// The present time of the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Sleeps for this time.
#[expect(clippy::disallowed_methods, reason = "another process can't wake this thread")]
pub fn pause(length: Duration) {
    std::thread::sleep(length);
}

/// The time after which a contender has failed.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// The deadline `bound` from now.
    pub fn after(bound: Duration) -> Self {
        Self(now() + bound)
    }

    /// Whether the deadline has passed.
    pub fn has_passed(self) -> bool {
        now() >= self.0
    }
}
