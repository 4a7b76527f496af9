//! [`KeySource`]: an extractor that configuration files can name.

use std::{fmt, str::FromStr};

use http::{HeaderMap, HeaderName};
use tidegate::Key;

use super::{AddressText, ExtractError, KeyExtractor, KeyHeaderError, header, missing::address_key};
use crate::head::RequestHead;

/// A source of keys that configuration files can name: `client-ip` or `header:x-api-key`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeySource {
    /// The client's address.
    ClientIp,
    /// A header of the request.
    Header(HeaderName),
}

impl KeySource {
    /// The key of a request with these headers, from this address. Without the header, it is the address, separate from
    /// all other keys.
    ///
    /// # Errors
    /// If the request has the header more than once, or its value is too long for a key.
    pub fn key_or_address<'r>(
        &self,
        headers: &'r HeaderMap,
        address: &'r AddressText,
    ) -> Result<Key<'r>, KeyHeaderError> {
        match self {
            Self::ClientIp => Ok(address.key()),
            Self::Header(name) => match header::key(headers, name)? {
                Some(key) => Ok(key),
                None => Ok(address_key(name.as_str(), address)?),
            },
        }
    }
}

impl KeyExtractor for KeySource {
    fn key<'r>(&self, request: &'r RequestHead<'_>) -> Result<Option<Key<'r>>, ExtractError> {
        match self {
            Self::ClientIp => Ok(Some(request.client_key()?)),
            Self::Header(name) => Ok(header::key(request.headers(), name)?),
        }
    }

    fn name(&self) -> Option<&str> {
        match self {
            Self::ClientIp => None,
            Self::Header(name) => Some(name.as_str()),
        }
    }
}

impl FromStr for KeySource {
    type Err = KeySourceError;

    /// Reads `client-ip` or `header:x-api-key`.
    fn from_str(text: &str) -> Result<Self, KeySourceError> {
        let error = || KeySourceError { text: text.to_owned() };
        match text.split_once(':') {
            None if text == "client-ip" => Ok(Self::ClientIp),
            Some(("header", name)) => name.trim().parse().map(Self::Header).map_err(|_| error()),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientIp => f.write_str("client-ip"),
            Self::Header(name) => write!(f, "header:{name}"),
        }
    }
}

/// The text is not a [`KeySource`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a source of keys: use client-ip or header:x-api-key")]
#[non_exhaustive]
pub struct KeySourceError {
    /// The text.
    pub text: String,
}
