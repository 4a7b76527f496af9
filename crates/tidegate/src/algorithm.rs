//! [`Algorithm`]: the way in which the units in use are counted. The arithmetic is in [`crate::algorithms`].

use std::{fmt, str::FromStr};

use crate::{cost::Cost, duration_text::parse_integer};

/// The algorithm by which a policy counts the units in use.
///
/// ```
/// use tidegate::{Algorithm, Buckets};
///
/// let ten: Algorithm = "sliding_buckets:10".parse()?;
/// assert_eq!(ten, Algorithm::SlidingBuckets(Buckets::new(10)?));
/// assert_eq!(Algorithm::default(), Algorithm::SlidingLog);
/// # Ok::<(), tidegate::AlgorithmError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Algorithm {
    /// Stores every charge for one window. Never more than `max` in any window. A few bytes for each request.
    #[default]
    SlidingLog,
    /// Two counters and an interpolation. Close on ordinary traffic, and at most `2 * max` against an adversary.
    SlidingCounter,
    /// One counter for each bucket. Never more than `max` in any window. A unit is counted up to one bucket longer than
    /// by the log.
    SlidingBuckets(Buckets),
    /// One counter that is reset at every multiple of the window. At most `2 * max` across a boundary.
    FixedWindow,
    /// A debt that drains at `max` per window. At most the burst at once, which is `max` by default.
    Gcra(Option<Burst>),
}

/// The algorithm without its numbers, for code with its own arithmetic.
///
/// It is exhaustive on purpose: such code does not compile until it supports a new algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AlgorithmKind {
    /// `sliding_log`
    Log,
    /// `sliding_counter`
    Counter,
    /// `sliding_buckets`
    Buckets,
    /// `fixed_window`
    Fixed,
    /// `gcra`
    Gcra,
}

impl Algorithm {
    pub(crate) fn kind(self) -> AlgorithmKind {
        match self {
            Self::SlidingLog => AlgorithmKind::Log,
            Self::SlidingCounter => AlgorithmKind::Counter,
            Self::SlidingBuckets(_) => AlgorithmKind::Buckets,
            Self::FixedWindow => AlgorithmKind::Fixed,
            Self::Gcra(_) => AlgorithmKind::Gcra,
        }
    }
}

/// The number of buckets in a window: 1 to 1000. They need not divide the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Buckets(u16);

impl Buckets {
    /// Creates a number of buckets.
    ///
    /// # Errors
    /// If it is not within 1 to 1000.
    pub fn new(buckets: u64) -> Result<Self, AlgorithmError> {
        match u16::try_from(buckets) {
            Ok(n @ 1..=1000) => Ok(Self(n)),
            _ => Err(AlgorithmError::Buckets { buckets }),
        }
    }

    /// The number of buckets.
    pub fn get(self) -> u64 {
        self.0.into()
    }
}

/// The maximum number of units that `gcra` admits at once: 1 to 10^12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Burst(u64);

impl Burst {
    /// Creates a burst.
    ///
    /// # Errors
    /// If it is not within 1 to 10^12.
    pub fn new(burst: u64) -> Result<Self, AlgorithmError> {
        if (1..=Cost::MAX.get()).contains(&burst) { Ok(Self(burst)) } else { Err(AlgorithmError::Burst { burst }) }
    }

    /// The number of units.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SlidingLog => f.write_str("sliding_log"),
            Self::SlidingCounter => f.write_str("sliding_counter"),
            Self::SlidingBuckets(n) => write!(f, "sliding_buckets:{}", n.0),
            Self::FixedWindow => f.write_str("fixed_window"),
            Self::Gcra(None) => f.write_str("gcra"),
            Self::Gcra(Some(burst)) => write!(f, "gcra:{}", burst.0),
        }
    }
}

impl FromStr for Algorithm {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        let unknown = || AlgorithmError::Unknown { text: text.chars().take(40).collect() };
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(parse_integer(number).ok_or_else(unknown)?)),
            None => (text, None),
        };
        match (name, number) {
            ("sliding_log", None) => Ok(Self::SlidingLog),
            ("sliding_counter", None) => Ok(Self::SlidingCounter),
            ("sliding_buckets", Some(n)) => Ok(Self::SlidingBuckets(Buckets::new(n)?)),
            ("fixed_window", None) => Ok(Self::FixedWindow),
            ("gcra", None) => Ok(Self::Gcra(None)),
            ("gcra", Some(burst)) => Ok(Self::Gcra(Some(Burst::new(burst)?))),
            _ => Err(unknown()),
        }
    }
}

/// The reason why an [`Algorithm`] is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// The number of buckets is out of range.
    #[error("{buckets} buckets are out of range: use 1 to 1000")]
    Buckets {
        /// The given number of buckets.
        buckets: u64,
    },
    /// The burst is out of range.
    #[error("a burst of {burst} is out of range: use 1 to 1000000000000")]
    Burst {
        /// The given number of units.
        burst: u64,
    },
    /// The text is not an algorithm.
    #[error(
        "`{text}` is not an algorithm: use sliding_log, sliding_counter, sliding_buckets:10, fixed_window, gcra or gcra:20"
    )]
    Unknown {
        /// The beginning of the text.
        text: String,
    },
}
