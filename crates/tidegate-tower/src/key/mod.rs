//! [`KeyExtractor`]: finds the key that a request is counted by.
//!
//! | extractor | key |
//! | --- | --- |
//! | [`ClientIp`] | the client's address: the default |
//! | [`Header`] | a header, such as `x-api-key` |
//! | [`Extension`] | an extension that an outer layer inserts, such as an account |
//! | `PathParameter` | a parameter of the path, such as `id` of `/users/{id}` (feature `axum`) |
//! | [`Global`] | one key for all requests |
//! | a closure | [`Rule::key_fn`](crate::Rule::key_fn) |
//! | a type of your own | [`KeyExtractor`] |

mod client_address;
mod extension;
mod header;
mod missing;
#[cfg(feature = "axum")]
mod path_parameter;
mod source;

use std::{borrow::Cow, sync::Arc};

pub use client_address::{AddressText, ClientAddress, ClientAddressError};
pub use extension::Extension;
pub use header::{Header, KeyHeaderError};
pub use missing::OnMissingKey;
pub(crate) use missing::{CountError, counted_key};
#[cfg(feature = "axum")]
pub use path_parameter::PathParameter;
pub use source::{KeySource, KeySourceError};
use tidegate::{Key, KeyError};

use crate::head::{NoClientAddress, RequestHead};

/// Finds the key that a request is counted by.
///
/// The module [`key`](crate::key) has extractors for the usual keys. [`Rule::key_fn`](crate::Rule::key_fn) accepts a
/// closure. Implement the trait for an extractor that has a name and settings of its own:
///
/// ```
/// use http::Request;
/// use tidegate::{Key, Policy};
/// use tidegate_tower::{RateLimitLayer, RequestHead, Rule, key::{ExtractError, KeyExtractor}};
///
/// /// Counts requests by the tenant in the host name: `acme` in `acme.example.com`.
/// struct Tenant {
///     domain: &'static str,
/// }
///
/// impl KeyExtractor for Tenant {
///     fn key<'r>(&self, request: &'r RequestHead<'_>) -> Result<Option<Key<'r>>, ExtractError> {
///         let Some(host) = request.header("host") else { return Ok(None) };
///         let tenant = host.strip_suffix(self.domain.as_bytes()).and_then(|host| host.strip_suffix(b"."));
///         Ok(Some(Key::new(tenant.ok_or(ExtractError::Rejected("the host is unknown".into()))?)?))
///     }
/// }
///
/// let extractor = Tenant { domain: "example.com" };
/// let request = Request::get("/").header("host", "acme.example.com").body(String::new())?;
/// assert_eq!(extractor.key(&RequestHead::new(&request)), Ok(Some(Key::new("acme")?)));
///
/// let policy = Policy::new("tenant", ["1000/1m".parse()?])?;
/// let layer = RateLimitLayer::new(Rule::new(policy).key(extractor));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KeyExtractor: Send + Sync + 'static {
    /// The key of a request; `None` if the request has none. [`OnMissingKey`] decides what happens then.
    ///
    /// The key can be borrowed from the request, so that nothing is allocated.
    ///
    /// # Errors
    /// If the request has an invalid key, or its client's address is not known.
    fn key<'r>(&self, request: &'r RequestHead<'_>) -> Result<Option<Key<'r>>, ExtractError>;

    /// The name by which clients know the key, such as the name of a header; `None` by default. A client gets it in the
    /// response to a request without the key, if the rule rejects such requests.
    fn name(&self) -> Option<&str> {
        None
    }
}

/// Why an extractor returns no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// The value is empty or too long for a key. The client gets status 400 and the reason.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The header of the key is invalid. The client gets status 400 and the reason.
    #[error(transparent)]
    Header(#[from] KeyHeaderError),
    /// The request is rejected for a reason of the extractor's own. The client gets status 400 and the reason.
    #[error("{0}")]
    Rejected(Cow<'static, str>),
    /// The client's address is not known. The client gets status 500 without a reason. The layer logs the reason once.
    #[error(transparent)]
    NoClientAddress(#[from] NoClientAddress),
}

/// An `Arc` of an extractor is an extractor, so a setting can select one: `Arc<dyn KeyExtractor>`.
impl<E: KeyExtractor + ?Sized> KeyExtractor for Arc<E> {
    fn key<'r>(&self, request: &'r RequestHead<'_>) -> Result<Option<Key<'r>>, ExtractError> {
        (**self).key(request)
    }

    fn name(&self) -> Option<&str> {
        (**self).name()
    }
}

/// Counts requests by the client's address, as [`ClientAddress`] finds it; for IPv6, by the client's network.
///
/// If the server does not provide addresses, a request gets status 500, for every [`OnMissingKey`]. The layer logs once
/// how to fix the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientIp;

impl KeyExtractor for ClientIp {
    #[inline]
    fn key<'r>(&self, request: &'r RequestHead<'_>) -> Result<Option<Key<'r>>, ExtractError> {
        Ok(Some(request.client_key()?))
    }
}

/// Counts all requests by one key: one limit for the whole service or route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Global;

impl KeyExtractor for Global {
    fn key<'r>(&self, _request: &'r RequestHead<'_>) -> Result<Option<Key<'r>>, ExtractError> {
        Ok(Some(Key::new("everyone")?))
    }
}

/// Counts requests by the key that a function returns.
pub(crate) struct FnExtractor<F>(pub(crate) F);

impl<F> KeyExtractor for FnExtractor<F>
where
    F: for<'r> Fn(&'r RequestHead<'_>) -> Option<Key<'r>> + Send + Sync + 'static,
{
    fn key<'r>(&self, request: &'r RequestHead<'_>) -> Result<Option<Key<'r>>, ExtractError> {
        Ok((self.0)(request))
    }
}
