//! [`Op`]: the operation of a request.

/// The operation of a request on the units of a key.
///
/// It is exhaustive on purpose: a store does not compile until it supports a new operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Spends the cost if it fits.
    Check,
    /// Answers as a check would, and spends nothing.
    Peek,
    /// Spends the cost whether it fits or not.
    Charge,
}
