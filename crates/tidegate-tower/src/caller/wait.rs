//! [`Wait`]: why a call has to wait, and for how long.

use std::time::Duration;

use tokio::{
    sync::futures::Notified,
    time::{self, Instant},
};

use super::acquire_error::AcquireError;

/// Shortest and longest time after which the first caller of a queue asks a shared store again: other processes do not tell
/// when their calls end or give units back.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// The first caller asks again after this part of the wait, so that a long wait takes few requests, and a short one ends
/// little later than it could.
const PART_OF_WAIT: u32 = 8;

/// Why a call has to wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    /// The time until the call fits if there are no other calls.
    pub(super) time: Duration,
    pub(super) reason: WaitReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitReason {
    /// Open holds. Usually calls end before their holds end by themselves.
    OpenHolds,
    /// Units in a window. Calls that cost less than they have reserved, or that are not made, give units back.
    Window,
    /// A pause, which is never shortened.
    Pause,
}

impl Wait {
    /// The time after which the call may fit although nothing has notified this process.
    fn ask_again(&self) -> Option<Duration> {
        let (shortest, longest) = ASK_AGAIN;
        match self.reason {
            WaitReason::OpenHolds => Some(shortest),
            WaitReason::Window => Some((self.time / PART_OF_WAIT).clamp(shortest, longest)),
            WaitReason::Pause => None,
        }
    }
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
        if wait.reason != WaitReason::OpenHolds || now >= deadline {
            return Err(AcquireError::TooLate { retry_after: wait.time });
        }
        until = deadline;
    }
    if let (true, Some(ask_again)) = (is_shared, wait.ask_again()) {
        until = until.min(now + ask_again);
    }
    tokio::select! {
        () = time::sleep_until(until) => {}
        () = refunded => {}
    }
    Ok(())
}
