//! [`Timestamp`]: a point in time, in microseconds since the Unix epoch.

use std::time::Duration;

/// Stored numbers, times and waits go no further than this: in 2255, and below what a double holds exactly.
pub(crate) const SATURATION: u64 = 9_000_000_000_000_000;

/// A point in time: microseconds since the Unix epoch, at most 9 * 10^15.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The time `micros` after the epoch; what is later than 9 * 10^15 is read as that.
    pub const fn from_micros(micros: u64) -> Self {
        Self(if micros < SATURATION { micros } else { SATURATION })
    }

    /// A time that the store has read, and so is in range.
    #[inline]
    pub(crate) fn of(time: i64) -> Self {
        Self(time.cast_unsigned())
    }

    /// Microseconds since the epoch.
    #[inline]
    pub fn as_micros(self) -> u64 {
        self.0
    }

    /// The time `later` than this one.
    #[must_use]
    pub fn after(self, later: Duration) -> Self {
        let micros = u64::try_from(later.as_micros()).unwrap_or(u64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }
}
