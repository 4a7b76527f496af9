//! [`Outcome`]: the exit code of a command.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done, or allowed.
    Good,
    /// Limited.
    Limited,
    /// Wrong arguments or a wrong configuration.
    Usage,
    /// The cost is higher than the limit ever allows.
    Impossible,
    /// The store or the service did not answer.
    StoreFailed,
    /// The key is banned.
    Banned,
    /// Interrupted by Ctrl-C.
    Interrupted,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Good => 0,
            Outcome::Limited => 1,
            Outcome::Usage => 2,
            Outcome::Impossible => 3,
            Outcome::StoreFailed => 4,
            Outcome::Banned => 5,
            Outcome::Interrupted => 130,
        })
    }
}
