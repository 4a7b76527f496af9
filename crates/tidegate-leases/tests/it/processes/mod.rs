//! Processes that lease from one Redis. Each records when it admitted a request, by the clock of this machine, which is also
//! that of Redis. Together they never exceed the limit, whatever happens to them, to their messages and to Redis.
//!
//! - `worker`: one such process
//! - `fleet`: starts processes and collects their records. It asserts that none admits by a lease that has ended
//! - `windows`: the most requests that were certainly admitted in a window
//!
//! The others are the faults.

mod clocks;
mod dated_at_grant;
mod failovers;
mod fleet;
mod hot_key;
mod kills;
mod network;
mod restarts;
mod stops;
mod windows;
mod worker;

#[expect(clippy::disallowed_methods, reason = "the tests record when requests were truly admitted")]
fn wall_micros() -> u64 {
    use std::time::{SystemTime, UNIX_EPOCH};

    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_micros()).expect("in range")
}
