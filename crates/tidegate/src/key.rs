//! [`Key`]: the subject that is counted.

use std::borrow::Cow;

/// Maximum length of a key, in bytes.
const MAX_LEN: usize = 1024;

/// The subject that is counted: 1 to 1024 bytes, or several parts joined so that no two lists of parts are the same key.
///
/// ```
/// use tidegate::Key;
///
/// let user = Key::new("alice")?;
/// let route = Key::join(["alice", "/search"])?;
/// assert_ne!(route, Key::join(["alice/", "search"])?);
///
/// // A number is the key of its decimal digits.
/// let account = Key::from(42_u64);
/// assert_eq!(account, Key::new("42")?);
///
/// // An owned string is an owned key, `Key<'static>`. A borrowed string is a borrowed key.
/// let owned = Key::try_from(format!("{}:{}", "alice", 42))?;
/// let borrowed = Key::try_from("alice")?;
///
/// // The 16 bytes of a UUID: `Key::from(uuid.into_bytes())`.
/// let uuid = Key::from([0x67, 0xe5, 0x50, 0x44, 0x10, 0xb1, 0x42, 0x6f, 0x92, 0x47, 0xbb, 0x68, 0x0e, 0x5f, 0xe0, 0xc8]);
/// # Ok::<(), tidegate::KeyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key<'a> {
    bytes: Cow<'a, [u8]>,
    joined: bool,
}

impl<'a> Key<'a> {
    /// Creates a key that borrows its bytes.
    ///
    /// # Errors
    /// If the key is empty or longer than 1024 bytes.
    pub fn new<B: AsRef<[u8]> + ?Sized>(bytes: &'a B) -> Result<Self, KeyError> {
        let bytes = bytes.as_ref();
        check_len(bytes.len())?;
        Ok(Self { bytes: Cow::Borrowed(bytes), joined: false })
    }

    /// Joins parts into one key. The length of each part is encoded before it, so different lists are different keys. A
    /// list is also different from a plain key of the same bytes. Parts may be empty.
    ///
    /// # Errors
    /// If there are no parts, or if the parts and two bytes for each are longer than 1024 bytes.
    pub fn join<B: AsRef<[u8]>>(parts: impl IntoIterator<Item = B>) -> Result<Key<'static>, KeyError> {
        let mut bytes = Vec::new();
        for part in parts {
            let part = part.as_ref();
            let len = u16::try_from(part.len()).map_err(|_| KeyError::TooLong { len: part.len() })?;
            bytes.extend_from_slice(&len.to_be_bytes());
            bytes.extend_from_slice(part);
            check_len(bytes.len())?;
        }
        check_len(bytes.len())?;
        Ok(Key { bytes: Cow::Owned(bytes), joined: true })
    }

    /// The bytes of the key. Together with [`is_joined`](Self::is_joined) they identify it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the key was joined from parts.
    pub fn is_joined(&self) -> bool {
        self.joined
    }

    /// The parts that the key was joined from, or the key itself as the only part.
    pub fn parts(&self) -> Vec<&[u8]> {
        if !self.joined {
            return vec![&self.bytes];
        }
        let (mut parts, mut rest) = (Vec::new(), &*self.bytes);
        while let Some((len, after)) = rest.split_first_chunk() {
            let (part, after) = after.split_at(u16::from_be_bytes(*len).into());
            parts.push(part);
            rest = after;
        }
        parts
    }

    /// The same key, borrowed from this one.
    pub fn as_borrowed(&self) -> Key<'_> {
        Key { bytes: Cow::Borrowed(&self.bytes), joined: self.joined }
    }

    /// The same key, owned.
    pub fn into_owned(self) -> Key<'static> {
        Key { bytes: Cow::Owned(self.bytes.into_owned()), joined: self.joined }
    }
}

/// Makes a key of the decimal digits, so `Key::from(42_u64)` equals `Key::new("42")`.
macro_rules! from_integers {
    ($($integer:ty)+) => {
        $(impl From<$integer> for Key<'static> {
            fn from(number: $integer) -> Self {
                Self { bytes: Cow::Owned(number.to_string().into_bytes()), joined: false }
            }
        })+
    };
}

from_integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

/// Makes a key of the bytes of a UUID.
impl From<[u8; 16]> for Key<'static> {
    fn from(bytes: [u8; 16]) -> Self {
        Self { bytes: Cow::Owned(bytes.into()), joined: false }
    }
}

impl<'a> TryFrom<Cow<'a, [u8]>> for Key<'a> {
    type Error = KeyError;

    fn try_from(bytes: Cow<'a, [u8]>) -> Result<Self, KeyError> {
        check_len(bytes.len())?;
        Ok(Self { bytes, joined: false })
    }
}

impl<'a> TryFrom<Cow<'a, str>> for Key<'a> {
    type Error = KeyError;

    fn try_from(text: Cow<'a, str>) -> Result<Self, KeyError> {
        match text {
            Cow::Borrowed(text) => Self::new(text),
            Cow::Owned(text) => text.try_into(),
        }
    }
}

impl TryFrom<Vec<u8>> for Key<'static> {
    type Error = KeyError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, KeyError> {
        Cow::<[u8]>::Owned(bytes).try_into()
    }
}

impl TryFrom<String> for Key<'static> {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        text.into_bytes().try_into()
    }
}

/// Makes keys that borrow their bytes, as [`Key::new`] does.
macro_rules! try_from_borrowed {
    ($($borrowed:ty)+) => {
        $(impl<'a> TryFrom<&'a $borrowed> for Key<'a> {
            type Error = KeyError;

            fn try_from(bytes: &'a $borrowed) -> Result<Self, KeyError> {
                Self::new(bytes)
            }
        })+
    };
}

try_from_borrowed!(str String [u8] Vec<u8>);

fn check_len(len: usize) -> Result<(), KeyError> {
    match len {
        0 => Err(KeyError::Empty),
        1..=MAX_LEN => Ok(()),
        _ => Err(KeyError::TooLong { len }),
    }
}

/// The reason why a [`Key`] is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key is empty.
    #[error("the key is empty: use 1 to 1024 bytes")]
    Empty,
    /// The key is too long.
    #[error("the key has {len} bytes or more: use 1 to 1024, counting two for each joined part")]
    TooLong {
        /// The length at which counting stopped.
        len: usize,
    },
}
