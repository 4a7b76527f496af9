//! [`Outcome`]: the exit code of a command.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done, or allowed.
    Good,
    /// Limited, or a reservation that is not open.
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
    /// The exit code of the command that was run.
    OfCommand(u8),
}

impl Outcome {
    fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Limited => 1,
            Self::Usage => 2,
            Self::Impossible => 3,
            Self::StoreFailed => 4,
            Self::Banned => 5,
            Self::Interrupted => 130,
            Self::OfCommand(code) => code,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome.code())
    }
}
