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

    /// Seconds since.
    #[inline]
    pub(crate) fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
