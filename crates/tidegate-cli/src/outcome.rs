//! [`Outcome`]: the exit code of a command.

use std::process::ExitCode;

/// How a command ended. The numbers are the exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done, or allowed.
    Good = 0,
    /// Limited.
    Limited = 1,
    /// Wrong arguments or a wrong configuration.
    Usage = 2,
    /// The cost is higher than the limit ever allows.
    Impossible = 3,
    /// The store or the service did not answer.
    StoreFailed = 4,
    /// The key is banned.
    Banned = 5,
    /// Interrupted by Ctrl-C.
    Interrupted = 130,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome as u8)
    }
}
