//! [`StoreError`]: why a store gave no answer.

use crate::{OverrideError, ReservationError, SpendError};

/// Why a store gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store did not answer. It is not known whether the operation was carried out, unless the message says so.
    #[error("{message}")]
    Unavailable {
        /// A short name of the cause, for counters: such as `timeout`.
        cause: &'static str,
        /// What happened, in one sentence.
        message: String,
    },
    /// The requests can't be decided as one. Nothing was decided.
    #[error(transparent)]
    Spend(#[from] SpendError),
    /// The reservation, or an operation on it, is malformed. Nothing was changed.
    #[error(transparent)]
    Reservation(#[from] ReservationError),
    /// The override can't be set. Nothing was changed.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// The override is in force, or removed, as asked. The list of overrides does not show it yet. Repeating the
    /// operation is safe.
    #[error("it is in force as asked, but the list of overrides could not be written: {0}; repeating it is safe")]
    Unlisted(String),
    /// The store does not have this operation.
    #[error("this store has no {operation}: use another store")]
    Unsupported {
        /// The name of the operation.
        operation: &'static str,
    },
    /// The answer contradicts the request. This is a defect of the store.
    #[error("the store gave an invalid answer: {problem}")]
    InvalidAnswer {
        /// What is wrong with the answer.
        problem: &'static str,
    },
}

impl StoreError {
    pub(crate) const NOT_READY: Self =
        Self::InvalidAnswer { problem: "the store says that it is immediate, but its answer was not ready" };

    /// A short name of the cause, for counters and logs.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Unavailable { cause, .. } => cause,
            Self::Spend(_) => "spend",
            Self::Reservation(_) => "reservation",
            Self::Override(_) => "override",
            Self::Unlisted(_) => "unlisted",
            Self::Unsupported { .. } => "unsupported",
            Self::InvalidAnswer { .. } => "invalid_answer",
        }
    }

    /// Whether the request itself is wrong, so that the same request never gets an answer.
    pub fn is_caused_by_request(&self) -> bool {
        matches!(self, Self::Spend(_) | Self::Reservation(_) | Self::Override(_))
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unlisted(_))
    }

    pub(crate) fn invalid(problem: &'static str) -> Self {
        Self::InvalidAnswer { problem }
    }
}
