//! [`By`]: who is counted.

mod client_address;
#[cfg(feature = "axum")]
mod path_parameter;

use std::{fmt, str::FromStr, sync::Arc};

pub use client_address::{AddressText, ClientAddress, ClientAddressError};
use http::{HeaderMap, HeaderName, HeaderValue, header::InvalidHeaderName};
use tidegate::{Key, KeyError, SpendError};

use crate::incoming::Incoming;

/// Who is counted: what a request's key is found by.
///
/// ```
/// use tidegate::Key;
/// use tidegate_tower::KeyExtractor;
///
/// struct Account { id: String }
///
/// let by_address = KeyExtractor::client_ip();
/// let by_api_key = KeyExtractor::header("x-api-key")?;
/// let by_account = KeyExtractor::extension(|account: &Account| &account.id);
/// let by_country = KeyExtractor::request(|request| Key::new(request.header("cf-ipcountry")?).ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct KeyExtractor(Source);

#[derive(Clone)]
enum Source {
    Plain(KeySource),
    Everyone,
    Found(Arc<Finder>, &'static str),
    #[cfg(feature = "axum")]
    PathParameter(Box<str>),
}

type Finder = dyn for<'r> Fn(&Incoming<'r>) -> Option<Result<Key<'r>, KeyError>> + Send + Sync;

/// Who is counted, as a configuration file says it: `client-ip`, `header:x-api-key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The client's address.
    ClientIp,
    /// A header of the request.
    Header(HeaderName),
}

/// What a request without a key gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WithoutKey {
    /// It is counted by its address, apart from all that have a key: leaving a header out must not be a way around a limit.
    #[default]
    ByAddress,
    /// It is not limited by this rule.
    Unlimited,
    /// It is refused as a bad request.
    Refused,
}

/// A key, borrowed from the request wherever it can be.
pub(crate) enum Found<'r> {
    Key(Key<'r>),
    Address(AddressText),
}

/// Why a request has no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoKey {
    /// There is nothing to count it by, and so it is to be let through.
    #[error("there is nothing to count it by")]
    Unlimited,
    /// The server can't know who it is.
    #[error(
        "the client's address is not known: serve an axum router with `into_make_service_with_connect_info::<SocketAddr>()`, or put a \
         `PeerAddress` into the request's extensions"
    )]
    NoAddress,
    /// It has to say who it is, and does not.
    #[error("the request lacks {0}")]
    Missing(String),
    /// Nothing that came before the layer knows who it is.
    #[error("it is not known who the request is from")]
    Unknown,
    /// What it says can't be a key.
    #[error(transparent)]
    Bad(#[from] KeyError),
    /// The key header has several values.
    #[error(transparent)]
    Header(#[from] KeyHeaderError),
    /// The rules that apply to it can't be one decision.
    #[error("{0}")]
    Rules(SpendError),
}

impl Found<'_> {
    pub(crate) fn key(&self) -> Key<'_> {
        match self {
            Self::Key(key) => key.as_borrowed(),
            Self::Address(text) => text.key(),
        }
    }
}

impl KeyExtractor {
    /// By the client's address, as [`ClientAddress`] finds it; IPv6 ones by their network.
    pub fn client_ip() -> Self {
        KeySource::ClientIp.into()
    }

    /// By a header, such as `x-api-key`.
    ///
    /// A request that has the header more than once is refused as a bad request, for every [`WithoutKey`]: the handler
    /// may read a different value than the one that is counted, and a client could change the counted value with each
    /// request. A comma is part of the value, except in a gRPC header that ends in `-bin`, where it separates values.
    ///
    /// # Errors
    /// If that can't be a header's name.
    pub fn header(name: impl TryInto<HeaderName, Error = InvalidHeaderName>) -> Result<Self, InvalidHeaderName> {
        Ok(KeySource::Header(name.try_into()?).into())
    }

    /// By what a layer before this one has put beside the request, such as the account it has found. In axum, layers that come before are
    /// added after: `.layer(limits).layer(middleware::from_fn(log_in))`.
    ///
    /// What has to be made first, such as the bytes of a number, is a key of its own:
    ///
    /// ```
    /// # use tidegate::Key;
    /// # use tidegate_tower::KeyExtractor;
    /// struct Account { id: u64 }
    ///
    /// KeyExtractor::request(|request| {
    ///     let id = request.extension::<Account>()?.id.to_be_bytes();
    ///     Some(Key::new(&id).ok()?.into_owned())
    /// });
    /// ```
    pub fn extension<T, K, F>(key: F) -> Self
    where
        T: Send + Sync + 'static,
        K: AsRef<[u8]> + ?Sized + 'static,
        F: for<'t> Fn(&'t T) -> &'t K + Send + Sync + 'static,
    {
        Self::found("extension", move |request| {
            let key = key(request.extension::<T>()?).as_ref();
            (!key.is_empty()).then(|| Key::new(key))
        })
    }

    /// By a parameter of the path that axum has matched, such as `id` of `/users/{id}`; percent-decoded, as handlers see it.
    #[cfg(feature = "axum")]
    pub fn path_parameter(name: &str) -> Self {
        Self(Source::PathParameter(name.into()))
    }

    /// By whatever a closure finds; [`Key::join`] makes a key of several things.
    pub fn request<F>(find: F) -> Self
    where
        F: for<'r> Fn(&Incoming<'r>) -> Option<Key<'r>> + Send + Sync + 'static,
    {
        Self::found("key", move |request| find(request).map(Ok))
    }

    fn found<F>(what: &'static str, find: F) -> Self
    where
        F: for<'r> Fn(&Incoming<'r>) -> Option<Result<Key<'r>, KeyError>> + Send + Sync + 'static,
    {
        Self(Source::Found(Arc::new(find), what))
    }

    /// Everyone together: one limit for the whole service or route.
    pub fn everyone() -> Self {
        Self(Source::Everyone)
    }

    /// The key of a request.
    #[inline]
    pub(crate) fn find<'r>(
        &self,
        request: &Incoming<'r>,
        client: &ClientAddress,
        without: WithoutKey,
    ) -> Result<Found<'r>, NoKey> {
        let (found, lacking): (Option<Key<'r>>, &str) = match &self.0 {
            Source::Plain(KeySource::ClientIp) => return address(request, client).map(Found::Address),
            Source::Everyone => return Ok(Found::Key(Key::new("everyone")?)),
            Source::Plain(KeySource::Header(name)) => {
                (only_value(request.headers(), name)?.map(Key::new).transpose()?, name.as_str())
            }
            Source::Found(find, what) => (find(request).transpose()?, what),
            #[cfg(feature = "axum")]
            Source::PathParameter(name) => match path_parameter::find(request, name) {
                Some(std::borrow::Cow::Borrowed(value)) => (Some(Key::new(value)?), name),
                Some(std::borrow::Cow::Owned(value)) => (Some(Key::new(&value)?.into_owned()), name),
                None => (None, name),
            },
        };
        match (found, without) {
            (Some(key), _) => Ok(Found::Key(key)),
            (None, WithoutKey::ByAddress) => Ok(Found::Key(keyless(lacking, &address(request, client)?)?)),
            (None, WithoutKey::Unlimited) => Err(NoKey::Unlimited),
            (None, WithoutKey::Refused) => Err(match &self.0 {
                // A client can't know what an extension is.
                Source::Found(..) => NoKey::Unknown,
                _ => NoKey::Missing(format!("`{lacking}`")),
            }),
        }
    }
}

/// The key of who lacks what others are counted by: its address, apart from all that have one.
fn keyless(lacking: &str, address: &AddressText) -> Result<Key<'static>, KeyError> {
    Key::join(["without", lacking, address.as_str()])
}

/// The value of a header that may have at most one value; `None` if it is missing or empty.
#[inline]
fn only_value<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Result<Option<&'r [u8]>, KeyHeaderError> {
    let mut values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let value = values.next();
    // gRPC may join values of binary metadata with commas, which base64 does not have.
    let is_joined = |value: &[u8]| name.as_str().ends_with("-bin") && value.contains(&b',');
    if values.next().is_some() || value.is_some_and(is_joined) {
        return Err(KeyHeaderError::Several { name: name.clone() });
    }
    Ok(value.filter(|value| !value.is_empty()))
}

#[inline]
fn address(request: &Incoming<'_>, client: &ClientAddress) -> Result<AddressText, NoKey> {
    let address = client.find(request.headers(), request.peer()).ok_or(NoKey::NoAddress)?;
    Ok(client.text(address))
}

impl fmt::Debug for KeyExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Plain(source) => write!(f, "KeyExtractor({source})"),
            Source::Everyone => f.write_str("KeyExtractor(everyone)"),
            Source::Found(_, what) => write!(f, "KeyExtractor({what})"),
            #[cfg(feature = "axum")]
            Source::PathParameter(name) => write!(f, "KeyExtractor(path parameter {name})"),
        }
    }
}

impl From<KeySource> for KeyExtractor {
    fn from(source: KeySource) -> Self {
        Self(Source::Plain(source))
    }
}

impl KeySource {
    /// The key of a request with these headers, from this address. Without the header that is counted by, it is the address, apart
    /// from all that have one.
    ///
    /// # Errors
    /// If the request has the header more than once, or its value is too long for a key.
    pub fn key<'r>(&self, headers: &'r HeaderMap, address: &'r AddressText) -> Result<Key<'r>, KeyHeaderError> {
        match self {
            Self::ClientIp => Ok(address.key()),
            Self::Header(name) => Ok(match only_value(headers, name)? {
                Some(value) => Key::new(value)?,
                None => keyless(name.as_str(), address)?,
            }),
        }
    }
}

impl FromStr for KeySource {
    type Err = KeySourceError;

    /// Reads `client-ip` or `header:x-api-key`.
    fn from_str(text: &str) -> Result<Self, KeySourceError> {
        let wrong = || KeySourceError { text: text.to_owned() };
        match text.split_once(':') {
            None if text == "client-ip" => Ok(Self::ClientIp),
            Some(("header", name)) => name.trim().parse().map(Self::Header).map_err(|_| wrong()),
            _ => Err(wrong()),
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

/// Why a [`KeySource`] was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no source of a key: use client-ip or header:x-api-key")]
pub struct KeySourceError {
    /// What was given.
    pub text: String,
}
