//! Waiting, with a bound. Nothing else here sleeps or looks at the time.
#![expect(clippy::disallowed_methods, reason = "other processes take the time they take")]

use std::{
    thread,
    time::{Duration, Instant},
};

const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Looks until there is an answer.
///
/// `look` says why there is none yet; the last reason is in the panic when `limit` has passed.
pub fn wait_for<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match look() {
            Ok(answer) => return answer,
            Err(why) if start.elapsed() > limit => panic!("waited {limit:?} for {what}: {why}"),
            Err(_) => thread::sleep(BETWEEN_LOOKS),
        }
    }
}

/// Does something and tells how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let answer = work();
    (answer, start.elapsed())
}
