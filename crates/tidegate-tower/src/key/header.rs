//! [`Header`]: counts requests by a header.

use http::{HeaderMap, HeaderName, HeaderValue, header::InvalidHeaderName};
use tidegate::{Key, KeyError};

use super::{ExtractError, KeyExtractor};
use crate::head::RequestHead;

/// Counts requests by a header, such as `x-api-key`.
///
/// A request that has the header more than once is rejected as a bad request, for every
/// [`OnMissingKey`](crate::OnMissingKey): the handler may read a different value than the one that is counted, and a client
/// could change the counted value with each request. A comma is part of the value, except in a gRPC header that ends in
/// `-bin`, where it separates values.
///
/// A client chooses the value of a header. A client that invents a value for each request is not limited, so count by a
/// header only if an outer layer or the service verifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header(HeaderName);

impl Header {
    /// Counts requests by the header `name`.
    ///
    /// # Errors
    /// If `name` is not a valid name of a header.
    pub fn new(name: impl TryInto<HeaderName, Error = InvalidHeaderName>) -> Result<Self, InvalidHeaderName> {
        Ok(Self(name.try_into()?))
    }
}

impl From<HeaderName> for Header {
    fn from(name: HeaderName) -> Self {
        Self(name)
    }
}

impl KeyExtractor for Header {
    fn key<'r>(&self, request: &'r RequestHead<'_>) -> Result<Option<Key<'r>>, ExtractError> {
        Ok(key(request.headers(), &self.0)?)
    }

    fn name(&self) -> Option<&str> {
        Some(self.0.as_str())
    }
}

/// The only value of a header as a key; `None` if the header is missing or empty.
#[inline]
pub(super) fn key<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Result<Option<Key<'r>>, KeyHeaderError> {
    let mut values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let value = values.next();
    // gRPC may join values of binary metadata with commas, which base64 does not contain.
    let is_joined = |value: &[u8]| name.as_str().ends_with("-bin") && value.contains(&b',');
    if values.next().is_some() || value.is_some_and(is_joined) {
        return Err(KeyHeaderError::Several { name: name.clone() });
    }
    Ok(value.filter(|value| !value.is_empty()).map(Key::new).transpose()?)
}

/// Why the key header of a request gives no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyHeaderError {
    /// The request has the header more than once.
    #[error("the request has several values of `{name}`: send only one, because the others would not be counted")]
    Several {
        /// The header.
        name: HeaderName,
    },
    /// The value of the header can't be a key.
    #[error(transparent)]
    Key(#[from] KeyError),
}
