//! [`Limit`]: at most `max` units in a `window`, written `100/1m`, or in open holds, written `4/inflight`.

use std::{fmt, str::FromStr, time::Duration};

use crate::{
    cost::Cost,
    duration_text::{format_duration, parse_duration, parse_integer},
};

const MIN_WINDOW: u64 = 1_000;
const MAX_WINDOW: u64 = 366 * 86_400_000_000;

/// At most `max` units in any `window`, or at most `max` units in open holds at once.
///
/// ```
/// use std::time::Duration;
/// use tidegate::Limit;
///
/// let limit = Limit::new(100, Duration::from_secs(60))?;
/// assert_eq!(limit, "100/1m".parse()?);
/// assert_eq!(limit.to_string(), "100/1m");
/// assert_eq!(Limit::in_flight(4)?, "4/inflight".parse()?);
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limit {
    max: u64,
    /// 0 for a limit on the units in open holds.
    window_us: u64,
}

/// The text in place of a window, for a limit on the units in open holds.
const IN_FLIGHT: &str = "inflight";

impl Limit {
    /// Creates a limit of `max` units in a `window`.
    ///
    /// # Errors
    /// If `max` is not within 1 to 10^12, or the window not within 1 ms to 366 days in whole microseconds.
    pub fn new(max: u64, window: Duration) -> Result<Self, LimitError> {
        if !window.subsec_nanos().is_multiple_of(1_000) {
            return Err(LimitError::FractionOfMicrosecond);
        }
        Self::from_micros(max, u64::try_from(window.as_micros()).unwrap_or(u64::MAX))
    }

    /// Creates a limit of `max` units in open holds at once. It has no window: it limits how many requests run at the same
    /// time. A policy with such a limit is not checked but reserved: see [`Store::reserve`](crate::Store::reserve).
    ///
    /// # Errors
    /// If `max` is not within 1 to 10^12.
    pub fn in_flight(max: u64) -> Result<Self, LimitError> {
        if !(1..=Cost::MAX.get()).contains(&max) {
            return Err(LimitError::Max { max });
        }
        Ok(Self { max, window_us: 0 })
    }

    /// Whether it limits the units in open holds and not those in a window.
    pub fn is_in_flight(&self) -> bool {
        self.window_us == 0
    }

    /// A limit that may be out of range: some conformance vectors exceed it.
    #[doc(hidden)]
    pub fn from_vector(max: u64, window_us: u64) -> Self {
        Self { max, window_us }
    }

    /// The same window with another `max`, which must be in range.
    pub(crate) fn with_max(self, max: u64) -> Self {
        Self { max, ..self }
    }

    fn from_micros(max: u64, window_us: u64) -> Result<Self, LimitError> {
        if !(1..=Cost::MAX.get()).contains(&max) {
            return Err(LimitError::Max { max });
        }
        if !(MIN_WINDOW..=MAX_WINDOW).contains(&window_us) {
            return Err(LimitError::Window);
        }
        Ok(Self { max, window_us })
    }

    /// The maximum number of units in one window, or in open holds at once.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The length of the window; 0 for a limit on the units in open holds.
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    pub(crate) fn window_us(&self) -> u64 {
        self.window_us
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_in_flight() {
            return write!(f, "{}/{IN_FLIGHT}", self.max);
        }
        write!(f, "{}/{}", self.max, format_duration(self.window()))
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Limit({self})")
    }
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let malformed = || LimitError::Text { text: text.chars().take(40).collect() };
        let (max, window) = text.split_once('/').ok_or_else(malformed)?;
        let max = parse_integer(max).ok_or_else(malformed)?;
        if window == IN_FLIGHT {
            return Self::in_flight(max);
        }
        let window = parse_duration(window).ok_or_else(malformed)?;
        Self::new(max, window)
    }
}

/// The reason why a [`Limit`] is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The number of units is out of range.
    #[error("a limit of {max} units is out of range: use 1 to 1000000000000")]
    Max {
        /// The given number of units.
        max: u64,
    },
    /// The window is out of range.
    #[error("the window is out of range: use 1ms to 366d")]
    Window,
    /// The window is not a whole number of microseconds.
    #[error("the window has a fraction of a microsecond: use whole microseconds")]
    FractionOfMicrosecond,
    /// The text is not a limit.
    #[error(
        "`{text}` is not a limit: write units and window, as in `100/1m`, with ms, s, m, h, d or w, or `4/inflight`"
    )]
    Text {
        /// The beginning of the text.
        text: String,
    },
}
