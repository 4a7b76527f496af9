//! [`Stopwatch`]: how long something took. The only place that reads a clock here; no decision depends on it.

use std::time::Instant;

/// A running stopwatch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts one.
    #[inline]
    #[expect(clippy::disallowed_methods, reason = "it measures, it does not decide")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since.
    #[inline]
    pub(crate) fn nanos(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
