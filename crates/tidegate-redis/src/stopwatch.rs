//! The only place that reads this machine's clock: to know when to give up waiting.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

/// Microseconds since this process first asked. Never goes back.
#[expect(clippy::disallowed_methods, reason = "deadlines and round trips; limits are counted by the server's clock")]
pub(crate) fn micros() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}

/// Waits for `duration`.
pub(crate) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}
