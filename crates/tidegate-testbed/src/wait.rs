//! Waits with a time limit. Only this module and the proxy sleep or read the time.
#![expect(clippy::disallowed_methods, reason = "it waits for other processes")]

use std::{
    thread,
    time::{Duration, Instant},
};

const RETRY_DELAY: Duration = Duration::from_millis(5);

/// Calls `attempt` until it returns a result.
///
/// An error of `attempt` is the reason why there is no result yet. After `limit`, the panic contains the last reason.
pub fn wait_for<T>(goal: &str, limit: Duration, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(result) => return result,
            Err(reason) if start.elapsed() > limit => panic!("waited {limit:?} for {goal}: {reason}"),
            Err(_) => thread::sleep(RETRY_DELAY),
        }
    }
}
