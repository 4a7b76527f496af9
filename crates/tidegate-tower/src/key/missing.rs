//! [`OnMissingKey`]: what happens to a request without a key. [`CountError`]: why a request can't be counted.

use tidegate::{Key, KeyError, ReservationError, SpendError};

use super::{AddressText, ExtractError, KeyExtractor};
use crate::head::{NoClientAddress, RequestHead};

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

/// Why a request can't be counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CountError {
    /// The extractor rejects the request, or the server does not provide addresses.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// The request has no key, and the rule requires one. The client knows the key by this name.
    #[error("the request has no `{0}`")]
    Missing(String),
    /// The request has no key, and the rule requires one. Clients don't know its name, such as that of an extension.
    #[error("the client of the request is not known")]
    Unidentified,
    /// The rule has no policy for the tier of the request.
    #[error("the tier of the request has no policy")]
    UnknownTier,
    /// The rules that apply to the request can't be one decision.
    #[error(transparent)]
    Spend(SpendError),
    /// The request can't be reserved.
    #[error(transparent)]
    Reservation(ReservationError),
    /// The runtime ended while the store decided.
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl CountError {
    /// Whether the server is misconfigured. The client gets no details then.
    pub(crate) fn is_internal(&self) -> bool {
        match self {
            Self::Extract(error) => matches!(error, ExtractError::NoClientAddress(_)),
            Self::Missing(_) | Self::Unidentified => false,
            Self::UnknownTier | Self::Spend(_) | Self::Reservation(_) | Self::ShuttingDown => true,
        }
    }
}

impl From<ReservationError> for CountError {
    fn from(error: ReservationError) -> Self {
        match error {
            ReservationError::Spend(error) => Self::Spend(error),
            error => Self::Reservation(error),
        }
    }
}

impl From<NoClientAddress> for CountError {
    fn from(error: NoClientAddress) -> Self {
        Self::Extract(error.into())
    }
}

/// The key that a request is counted by; `None` if the rule does not limit the request.
#[inline]
pub(crate) fn counted_key<'r>(
    extractor: &dyn KeyExtractor,
    request: &'r RequestHead<'_>,
    on_missing_key: OnMissingKey,
) -> Result<Option<Key<'r>>, CountError> {
    match extractor.key(request)? {
        Some(key) => Ok(Some(key)),
        None => missing_key(extractor, request, on_missing_key),
    }
}

fn missing_key(
    extractor: &dyn KeyExtractor,
    request: &RequestHead<'_>,
    on_missing_key: OnMissingKey,
) -> Result<Option<Key<'static>>, CountError> {
    match (on_missing_key, extractor.name()) {
        (OnMissingKey::UseAddress, name) => {
            let key = address_key(name.unwrap_or("key"), request.client_text()?);
            Ok(Some(key.map_err(ExtractError::from)?))
        }
        (OnMissingKey::Admit, _) => Ok(None),
        (OnMissingKey::Reject, Some(name)) => Err(CountError::Missing(name.to_owned())),
        (OnMissingKey::Reject, None) => Err(CountError::Unidentified),
    }
}

/// The key of a request without the key `name`: its address, separate from all other keys.
pub(super) fn address_key(name: &str, address: &AddressText) -> Result<Key<'static>, KeyError> {
    Key::join(["without", name, address.as_str()])
}
