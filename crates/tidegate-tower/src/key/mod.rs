//! [`KeyExtractor`]: finds the key that a request is counted by.

mod client_address;
#[cfg(feature = "axum")]
mod path_parameter;

use std::{fmt, str::FromStr, sync::Arc};

pub use client_address::{AddressText, ClientAddress, ClientAddressError};
use http::{HeaderMap, HeaderName, HeaderValue, header::InvalidHeaderName};
use tidegate::{Key, KeyError, SpendError};

use crate::head::RequestHead;

/// Finds the key that a request is counted by.
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
/// let by_country = KeyExtractor::from_fn(|request| Key::new(request.header("cf-ipcountry")?).ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct KeyExtractor(Source);

#[derive(Clone)]
enum Source {
    Configured(KeySource),
    Function(Arc<KeyFn>, &'static str),
    #[cfg(feature = "axum")]
    PathParameter(Box<str>),
}

type KeyFn = dyn for<'r> Fn(&RequestHead<'r>) -> Option<Result<Key<'r>, KeyError>> + Send + Sync;

/// A source of keys that configuration files can name: `client-ip` or `header:x-api-key`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeySource {
    /// The client's address.
    ClientIp,
    /// A header of the request.
    Header(HeaderName),
}

/// What happens to a request without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnMissingKey {
    /// The request is counted by its address, separately from requests with a key. A client can't avoid a limit by
    /// omitting a header.
    #[default]
    UseAddress,
    /// The rule does not limit the request.
    Admit,
    /// The request is rejected as a bad request.
    Reject,
}

/// A key, borrowed from the request if possible.
pub(crate) enum ExtractedKey<'r> {
    Key(Key<'r>),
    Address(AddressText),
}

/// Why a request can't be counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CountError {
    /// The server inserts no peer address.
    #[error(
        "the client's address is not known: serve an axum router with \
         `into_make_service_with_connect_info::<SocketAddr>()`, or insert a `PeerAddress` into the request's extensions"
    )]
    NoAddress,
    /// The request has no key, and the rule requires one.
    #[error("the request has no `{0}`")]
    Missing(String),
    /// No outer layer inserted a key. The client can't know the name of an extension.
    #[error("the client of the request is not known")]
    Unidentified,
    /// The value can't be a key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key header has several values.
    #[error(transparent)]
    Header(#[from] KeyHeaderError),
    /// The rules that apply to the request can't be one decision.
    #[error("{0}")]
    Spend(SpendError),
}

impl ExtractedKey<'_> {
    pub(crate) fn key(&self) -> Key<'_> {
        match self {
            Self::Key(key) => key.as_borrowed(),
            Self::Address(text) => text.key(),
        }
    }
}

impl KeyExtractor {
    /// The client's address, as [`ClientAddress`] finds it; for IPv6, the client's network.
    pub fn client_ip() -> Self {
        KeySource::ClientIp.into()
    }

    /// A header, such as `x-api-key`.
    ///
    /// A request that has the header more than once is rejected as a bad request, for every [`OnMissingKey`]: the
    /// handler may read a different value than the one that is counted, and a client could change the counted value
    /// with each request. A comma is part of the value, except in a gRPC header that ends in `-bin`, where it separates values.
    ///
    /// # Errors
    /// If `name` is not a valid name of a header.
    pub fn header(name: impl TryInto<HeaderName, Error = InvalidHeaderName>) -> Result<Self, InvalidHeaderName> {
        Ok(KeySource::Header(name.try_into()?).into())
    }

    /// An extension that an outer layer has inserted, such as an account. In axum, the layer that is added last is the
    /// outermost: `.layer(limits).layer(middleware::from_fn(log_in))`.
    ///
    /// For a key that can't be borrowed, such as the bytes of a number, use [`from_fn`](Self::from_fn):
    ///
    /// ```
    /// # use tidegate::Key;
    /// # use tidegate_tower::KeyExtractor;
    /// struct Account { id: u64 }
    ///
    /// KeyExtractor::from_fn(|request| {
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
        Self::function("extension", move |request| {
            let key = key(request.extension::<T>()?).as_ref();
            (!key.is_empty()).then(|| Key::new(key))
        })
    }

    /// A parameter of the path that axum has matched, such as `id` of `/users/{id}`. It is percent-decoded, as for
    /// handlers.
    #[cfg(feature = "axum")]
    pub fn path_parameter(name: &str) -> Self {
        Self(Source::PathParameter(name.into()))
    }

    /// The key that a closure returns. [`Key::join`] makes a key of several values.
    pub fn from_fn(find: impl for<'r> Fn(&RequestHead<'r>) -> Option<Key<'r>> + Send + Sync + 'static) -> Self {
        Self::function("key", move |request| find(request).map(Ok))
    }

    fn function<F>(name: &'static str, find: F) -> Self
    where
        F: for<'r> Fn(&RequestHead<'r>) -> Option<Result<Key<'r>, KeyError>> + Send + Sync + 'static,
    {
        Self(Source::Function(Arc::new(find), name))
    }

    /// One key for all requests: one limit for the whole service or route.
    pub fn global() -> Self {
        Self::function("global", |_| Some(Key::new("everyone")))
    }

    /// The key of a request; `None` if the rule does not limit the request.
    #[inline]
    pub(crate) fn extract<'r>(
        &self,
        request: &RequestHead<'r>,
        client: &ClientAddress,
        on_missing_key: OnMissingKey,
    ) -> Result<Option<ExtractedKey<'r>>, CountError> {
        let (key, name): (Option<Key<'r>>, &str) = match &self.0 {
            Source::Configured(KeySource::ClientIp) => {
                return Ok(Some(ExtractedKey::Address(address(request, client)?)));
            }
            Source::Configured(KeySource::Header(name)) => {
                (only_value(request.headers(), name)?.map(Key::new).transpose()?, name.as_str())
            }
            Source::Function(find, name) => (find(request).transpose()?, name),
            #[cfg(feature = "axum")]
            Source::PathParameter(name) => match path_parameter::find(request, name) {
                Some(std::borrow::Cow::Borrowed(value)) => (Some(Key::new(value)?), name),
                Some(std::borrow::Cow::Owned(value)) => (Some(Key::new(&value)?.into_owned()), name),
                None => (None, name),
            },
        };
        let key = match (key, on_missing_key) {
            (Some(key), _) => key,
            (None, OnMissingKey::UseAddress) => address_key(name, &address(request, client)?)?,
            (None, OnMissingKey::Admit) => return Ok(None),
            (None, OnMissingKey::Reject) => {
                let has_name = !matches!(self.0, Source::Function(..));
                return Err(if has_name { CountError::Missing(name.to_owned()) } else { CountError::Unidentified });
            }
        };
        Ok(Some(ExtractedKey::Key(key)))
    }
}

/// The key of a request without the key `name`: its address, separate from all other keys.
fn address_key(name: &str, address: &AddressText) -> Result<Key<'static>, KeyError> {
    Key::join(["without", name, address.as_str()])
}

/// The value of a header that may have at most one value; `None` if it is missing or empty.
#[inline]
fn only_value<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Result<Option<&'r [u8]>, KeyHeaderError> {
    let mut values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let value = values.next();
    // gRPC may join values of binary metadata with commas, which base64 does not contain.
    let is_joined = |value: &[u8]| name.as_str().ends_with("-bin") && value.contains(&b',');
    if values.next().is_some() || value.is_some_and(is_joined) {
        return Err(KeyHeaderError::Several { name: name.clone() });
    }
    Ok(value.filter(|value| !value.is_empty()))
}

#[inline]
fn address(request: &RequestHead<'_>, client: &ClientAddress) -> Result<AddressText, CountError> {
    let address = client.find(request.headers(), request.peer()).ok_or(CountError::NoAddress)?;
    Ok(client.text(address))
}

impl fmt::Debug for KeyExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Configured(source) => write!(f, "KeyExtractor({source})"),
            Source::Function(_, name) => write!(f, "KeyExtractor({name})"),
            #[cfg(feature = "axum")]
            Source::PathParameter(name) => write!(f, "KeyExtractor(path parameter {name})"),
        }
    }
}

impl From<KeySource> for KeyExtractor {
    fn from(source: KeySource) -> Self {
        Self(Source::Configured(source))
    }
}

impl KeySource {
    /// The key of a request with these headers, from this address. Without the header, it is the address, separate from
    /// all other keys.
    ///
    /// # Errors
    /// If the request has the header more than once, or its value is too long for a key.
    pub fn key<'r>(&self, headers: &'r HeaderMap, address: &'r AddressText) -> Result<Key<'r>, KeyHeaderError> {
        match self {
            Self::ClientIp => Ok(address.key()),
            Self::Header(name) => Ok(match only_value(headers, name)? {
                Some(value) => Key::new(value)?,
                None => address_key(name.as_str(), address)?,
            }),
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

/// The text is no [`KeySource`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a source of keys: use client-ip or header:x-api-key")]
#[non_exhaustive]
pub struct KeySourceError {
    /// The text.
    pub text: String,
}
