//! [`Wait`]: why a call has to wait, and for how long.

use std::time::Duration;

use tokio::{
    sync::futures::Notified,
    time::{self, Instant},
};

use super::acquire_error::AcquireError;

/// While an in-flight limit of a shared store is used up, the first caller of a queue asks the store again after this
/// time: other processes do not tell when their calls end.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// Why a call has to wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    /// The time until the call fits if there are no other calls.
    pub(super) time: Duration,
    /// Whether the call may fit at any time before, because other calls end.
    pub(super) may_end_earlier: bool,
}

/// Sleeps until the call may fit, unless that is after the deadline.
pub(super) async fn sleep(
    refunded: Notified<'_>,
    wait: Wait,
    deadline: Option<Instant>,
    is_shared: bool,
) -> Result<(), AcquireError> {
    let now = Instant::now();
    let mut until = now + wait.time;
    if let Some(deadline) = deadline.filter(|deadline| until > *deadline) {
        if !wait.may_end_earlier || now >= deadline {
            return Err(AcquireError::TooLate { retry_after: wait.time });
        }
        until = deadline;
    }
    if wait.may_end_earlier && is_shared {
        until = until.min(now + ASK_AGAIN);
    }
    tokio::select! {
        () = time::sleep_until(until) => {}
        () = refunded => {}
    }
    Ok(())
}
