//! Reading the time: the one place in this crate that looks at a clock, or waits by one.

use std::time::{Duration, Instant};

/// A moment on the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Does nothing for so long.
#[expect(clippy::disallowed_methods, reason = "who waits for another process can't be woken by it")]
pub fn pause(length: Duration) {
    std::thread::sleep(length);
}

/// The moment after which a contender counts as not answering.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// The deadline `bound` from now.
    pub fn after(bound: Duration) -> Self {
        Self(now() + bound)
    }

    /// Whether it is over.
    pub fn has_passed(self) -> bool {
        now() >= self.0
    }
}
