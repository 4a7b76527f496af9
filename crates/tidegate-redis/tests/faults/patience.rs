//! Waiting for something to come about, with a bound.

use std::{
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tidegate::Timestamp;

/// Long enough for any machine; only a store that never recovers takes it.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until it is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "waited {LIMIT:?} for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The time by the clock that the servers of this machine read, too.
pub(crate) fn wall_clock() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Timestamp::from_micros(u64::try_from(now.as_micros()).expect("before 2255"))
}
