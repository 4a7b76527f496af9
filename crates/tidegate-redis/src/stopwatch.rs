//! The only reader of this machine's clock: for timeouts and response times.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

/// Microseconds since the first call in this process. They never go back.
#[expect(clippy::disallowed_methods, reason = "deadlines and round trips; limits are counted by the server's clock")]
pub(crate) fn micros() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    to_micros(START.get_or_init(Instant::now).elapsed())
}

/// Converts a duration to microseconds.
pub(crate) fn to_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
