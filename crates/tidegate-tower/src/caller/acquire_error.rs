//! [`AcquireError`]: why a call must not be made.

use std::time::Duration;

use tidegate::{Limit, ReservationError, SpendError};

/// Why a call must not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The call costs more than a limit ever allows.
    #[error("the call costs {cost}, more than {limit} ever allows: waiting does not help")]
    Impossible {
        /// The cost.
        cost: u64,
        /// The limit.
        limit: Limit,
    },
    /// An operator has banned the key. The error is returned at once, even if the ban has an end.
    #[error("the key is banned from this budget{}", ban_end(*.retry_after))]
    Banned {
        /// The time until the ban ends; `None` if it has no end.
        retry_after: Option<Duration>,
    },
    /// The call does not fit in time. The error is returned at once.
    #[error("the budget allows the call in {retry_after:?}, after the maximum wait")]
    TooLate {
        /// The time until the call fits if there are no other calls.
        retry_after: Duration,
    },
    /// Other callers were first in the queue for the maximum wait.
    #[error("other calls were first in the queue for the maximum wait")]
    TimedOut,
    /// The maximum number of callers is waiting.
    #[error("{max} calls are waiting, which is the maximum")]
    QueueFull {
        /// The maximum.
        max: usize,
    },
    /// The store failed, and the policy admits no calls in that case.
    #[error("the store failed, and the policy admits no calls without it")]
    StoreUnavailable,
    /// The budget has no operation of this name.
    #[error("the budget has no operation `{name}`; it has: {known}")]
    UnknownOperation {
        /// The name.
        name: String,
        /// The operations of the budget.
        known: String,
    },
    /// The number of costs is not the number of policies.
    #[error("{given} costs for {policies} policies: give one for each, in order")]
    CostCount {
        /// The number of costs.
        given: usize,
        /// The number of policies.
        policies: usize,
    },
    /// The policies can't be one decision.
    #[error(transparent)]
    Spend(#[from] SpendError),
    /// The hold is malformed.
    #[error(transparent)]
    Reservation(ReservationError),
}

impl From<ReservationError> for AcquireError {
    fn from(error: ReservationError) -> Self {
        match error {
            ReservationError::Spend(error) => Self::Spend(error),
            error => Self::Reservation(error),
        }
    }
}

fn ban_end(after: Option<Duration>) -> String {
    after.map_or_else(|| ", and the ban has no end".to_owned(), |after| format!(": the ban ends in {after:?}"))
}
