//! Waiting for a condition, with a timeout.

use std::{
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tidegate::Timestamp;

/// Long enough for any machine; only a store that never recovers reaches it.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until the condition is true.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited {LIMIT:?} for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The time of the clock that the servers on this machine also use.
pub(crate) fn wall_clock() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Timestamp::from_micros(u64::try_from(now.as_micros()).expect("before 2255"))
}
