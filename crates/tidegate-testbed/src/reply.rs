//! [`Reply`]: what a server answers.

use std::borrow::Cow;

/// What a server answers, in RESP 2.
///
/// The accessors panic if it is another kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A short text, such as `OK`.
    Simple(String),
    /// An error, with its code in front.
    Error(String),
    /// A number.
    Integer(i64),
    /// Bytes, or nothing. An array that is nothing is this, too.
    Bulk(Option<Vec<u8>>),
    /// Replies in a row.
    Array(Vec<Reply>),
}

impl Reply {
    /// The text of a simple string or of bytes that are there.
    #[track_caller]
    pub fn as_str_lossy(&self) -> Cow<'_, str> {
        match self {
            Self::Simple(text) => text.into(),
            Self::Bulk(Some(bytes)) => String::from_utf8_lossy(bytes),
            _ => self.is_no("text"),
        }
    }

    /// The number.
    #[track_caller]
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            _ => self.is_no("integer"),
        }
    }

    /// The bytes, or `None` where redis says nil.
    #[track_caller]
    pub fn bulk(&self) -> Option<&[u8]> {
        match self {
            Self::Bulk(bytes) => bytes.as_deref(),
            _ => self.is_no("bulk string"),
        }
    }

    /// The replies in a row.
    #[track_caller]
    pub fn array(&self) -> &[Reply] {
        match self {
            Self::Array(replies) => replies,
            _ => self.is_no("array"),
        }
    }

    /// The error's text.
    #[track_caller]
    pub fn error(&self) -> &str {
        match self {
            Self::Error(text) => text,
            _ => self.is_no("error"),
        }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// Panics if it is anything but `OK`.
    #[track_caller]
    pub fn expect_ok(&self) {
        assert_eq!(*self, Self::Simple("OK".into()));
    }

    #[track_caller]
    fn is_no(&self, kind: &str) -> ! {
        panic!("the reply is no {kind}: {self:?}")
    }
}
