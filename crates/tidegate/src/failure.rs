//! [`OnStoreFailure`]: the behaviour of a policy when its store fails.

use std::{fmt, str::FromStr};

/// The behaviour of a policy when its store fails.
///
/// It is exhaustive on purpose: code that handles failures does not compile until it supports a new behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnStoreFailure {
    /// Admits the request without counting it.
    #[default]
    Open,
    /// Denies the request as [`StoreUnavailable`](crate::Reason::StoreUnavailable).
    Closed,
    /// Decides in the memory of this process, by this share of the limits.
    Local(Share),
}

/// A share of a limit, which one of several nodes may admit on its own: above 0 and at most 1, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Share(u32);

impl Share {
    const WHOLE: u32 = 1_000_000;

    /// The whole limit.
    pub const ALL: Self = Self(Self::WHOLE);

    /// One half.
    pub const HALF: Self = Self(Self::WHOLE / 2);

    /// The share `part` of a limit, such as 0.25.
    ///
    /// # Errors
    /// If it is not above 0 and at most 1, or less than a millionth.
    pub fn new(part: f64) -> Result<Self, ShareError> {
        let millionths = (part * f64::from(Self::WHOLE)).floor();
        if (1.0..=f64::from(Self::WHOLE)).contains(&millionths) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 1 to a million")]
            return Ok(Self(millionths as u32));
        }
        Err(ShareError { part: part.to_string() })
    }

    /// The share of `units`, rounded down, but at least 1.
    pub(crate) fn of(self, units: u64) -> u64 {
        let share = u128::from(units) * u128::from(self.0) / u128::from(Self::WHOLE);
        u64::try_from(share).unwrap_or(units).max(1)
    }

    /// The share of a number of keys or bytes.
    pub(crate) fn of_size(self, size: usize) -> usize {
        usize::try_from(self.of(size as u64)).unwrap_or(size)
    }
}

/// A [`Share`] is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a share of `{part}` is out of range: use a number above 0 and up to 1, such as 0.25")]
#[non_exhaustive]
pub struct ShareError {
    /// The given number.
    pub part: String,
}

/// The reason why an [`OnStoreFailure`] is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OnStoreFailureError {
    /// The text is not a behaviour.
    #[error("`{text}` is not a behaviour when the store fails: use open, closed, local or local:0.25")]
    Word {
        /// The given text.
        text: String,
    },
    /// The share is out of range.
    #[error(transparent)]
    Share(#[from] ShareError),
}

impl fmt::Display for OnStoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Closed => f.write_str("closed"),
            Self::Local(Share::ALL) => f.write_str("local"),
            Self::Local(share) => write!(f, "local:{}", f64::from(share.0) / f64::from(Share::WHOLE)),
        }
    }
}

impl FromStr for OnStoreFailure {
    type Err = OnStoreFailureError;

    /// Parses `open`, `closed`, `local` (the whole limit) or `local:0.25` (a share of it).
    fn from_str(text: &str) -> Result<Self, OnStoreFailureError> {
        match text.split_once(':') {
            None if text == "open" => Ok(Self::Open),
            None if text == "closed" => Ok(Self::Closed),
            None if text == "local" => Ok(Self::Local(Share::ALL)),
            Some(("local", share)) => {
                let part = share.parse().map_err(|_| ShareError { part: share.to_owned() })?;
                Ok(Self::Local(Share::new(part)?))
            }
            _ => Err(OnStoreFailureError::Word { text: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OnStoreFailure, Share};

    #[test]
    fn a_share_of_a_limit_is_at_least_one_unit() {
        let quarter = Share::new(0.25).expect("in range");
        assert_eq!(quarter.of(100), 25);
        assert_eq!(quarter.of(3), 1, "rounded down, but at least 1");
        assert_eq!(Share::ALL.of(1_000_000_000_000), 1_000_000_000_000);
    }

    #[test]
    fn the_error_for_a_share_out_of_range_names_the_share() {
        for part in [0.0, -0.5, 1.1, f64::NAN, f64::INFINITY, 0.000_000_1] {
            let error = Share::new(part).expect_err("out of range").to_string();
            assert!(error.contains(&part.to_string()) && error.contains("0.25"), "{error}");
        }
    }

    #[test]
    fn the_texts_are_those_of_the_protocols() {
        let local = |part| OnStoreFailure::Local(Share::new(part).expect("in range"));
        for (text, expected) in [
            ("open", OnStoreFailure::Open),
            ("closed", OnStoreFailure::Closed),
            ("local", local(1.0)),
            ("local:0.25", local(0.25)),
        ] {
            assert_eq!(text.parse(), Ok(expected));
            assert_eq!(expected.to_string(), text);
        }
        for text in ["", "Open", "local:", "local:2", "closed:1", "fail"] {
            assert!(text.parse::<OnStoreFailure>().is_err(), "{text}");
        }
    }
}
