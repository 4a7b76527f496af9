//! [`Timestamp`]: a point in time, in microseconds since the Unix epoch.

use std::time::Duration;

/// Stored numbers, times and waits saturate at this value. It is a time in the year 2255, and a double represents it exactly.
pub(crate) const SATURATION: u64 = 9_000_000_000_000_000;

/// A point in time: microseconds since the Unix epoch, at most 9 * 10^15.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest time: 9 * 10^15 microseconds since the epoch, in the year 2255.
    pub const MAX: Self = Self(SATURATION);

    /// The time `micros` microseconds after the epoch, or [`MAX`](Self::MAX) if that is earlier.
    pub const fn from_micros(micros: u64) -> Self {
        Self(if micros < SATURATION { micros } else { SATURATION })
    }

    /// A time that a store has read, so it is in range.
    #[inline]
    pub(crate) fn of(time: i64) -> Self {
        Self(time.cast_unsigned())
    }

    /// Microseconds since the epoch.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time `later` after this one, or [`MAX`](Self::MAX) if that is earlier.
    #[must_use]
    pub fn after(self, later: Duration) -> Self {
        let micros = u64::try_from(later.as_micros()).unwrap_or(u64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }
}
