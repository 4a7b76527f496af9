//! [`Reply`]: a reply of a server.

use std::borrow::Cow;

/// A reply of a server, in RESP 2.
///
/// The accessors panic if the reply has another type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A short text, such as `OK`.
    Simple(String),
    /// An error, with its code in front.
    Error(String),
    /// A number.
    Integer(i64),
    /// Bytes or null. A null array is `Bulk(None)`, too.
    Bulk(Option<Vec<u8>>),
    /// A list of replies.
    Array(Vec<Reply>),
}

impl Reply {
    /// The text of a simple string or of bytes.
    #[track_caller]
    pub fn as_str_lossy(&self) -> Cow<'_, str> {
        match self {
            Self::Simple(text) => text.into(),
            Self::Bulk(Some(bytes)) => String::from_utf8_lossy(bytes),
            _ => self.wrong_type("a text"),
        }
    }

    /// The number.
    #[track_caller]
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            _ => self.wrong_type("an integer"),
        }
    }

    /// The bytes, or `None` for null.
    #[track_caller]
    pub fn bulk(&self) -> Option<&[u8]> {
        match self {
            Self::Bulk(bytes) => bytes.as_deref(),
            _ => self.wrong_type("a bulk string"),
        }
    }

    /// The list of replies.
    #[track_caller]
    pub fn array(&self) -> &[Reply] {
        match self {
            Self::Array(replies) => replies,
            _ => self.wrong_type("an array"),
        }
    }

    /// The error's text.
    #[track_caller]
    pub fn error(&self) -> &str {
        match self {
            Self::Error(text) => text,
            _ => self.wrong_type("an error"),
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
    fn wrong_type(&self, expected: &str) -> ! {
        panic!("expected {expected}, got {self:?}")
    }
}
