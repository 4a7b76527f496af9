//! [`Warnings`]: tells the operator what a layer needs and does not find. Each cause is logged once.

use std::any::{TypeId, type_name};

use tidegate::{ReservationError, SpendError};

use crate::{head::NoClientAddress, once_set::OnceSet};

/// The causes that a layer has logged.
#[derive(Debug, Default)]
pub(crate) struct Warnings(OnceSet<Cause>);

#[derive(Debug, PartialEq)]
enum Cause {
    NoAddress,
    NoExtension(TypeId),
    #[cfg(feature = "axum")]
    NoMatchedPath,
    Spend,
    Reservation,
    NoRuntime,
}

/// A changed copy of a layer is another layer, with warnings of its own.
impl Clone for Warnings {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Warnings {
    #[cold]
    pub(crate) fn no_address(&self) {
        if self.0.insert(Cause::NoAddress).is_some() {
            tracing::error!("a rate limit can't count requests by address: {NoClientAddress}");
        }
    }

    #[cold]
    pub(crate) fn no_extension<T: 'static>(&self) {
        if self.0.insert(Cause::NoExtension(TypeId::of::<T>())).is_some() {
            tracing::warn!(
                "a rate limit found no extension `{}` in a request, so its rules use their defaults, such as the \
                 client's address: if every request should have it, insert it in a layer outside of this one (in axum, \
                 the layer that is added last is the outermost)",
                type_name::<T>()
            );
        }
    }

    #[cfg(feature = "axum")]
    #[cold]
    pub(crate) fn no_matched_path(&self) {
        if self.0.insert(Cause::NoMatchedPath).is_some() {
            tracing::warn!(
                "a rate limit found no path parameters in a request: if the path of the request has a route, add the \
                 layer with axum's `Router::layer`, `Router::route_layer` or `MethodRouter::layer`, so that it runs \
                 after routing"
            );
        }
    }

    /// The rules of a request can't be one decision.
    #[cold]
    pub(crate) fn spend(&self, error: &SpendError) {
        if self.0.insert(Cause::Spend).is_some() {
            tracing::error!("a rate limit can't decide a request by all of its rules: {error}");
        }
    }

    /// A request can't be reserved.
    #[cold]
    pub(crate) fn reservation(&self, error: &ReservationError) {
        if self.0.insert(Cause::Reservation).is_some() {
            tracing::error!("a rate limit can't reserve a request: {error}");
        }
    }

    /// A request is reserved outside of tokio.
    #[cold]
    pub(crate) fn no_runtime(&self) {
        if self.0.insert(Cause::NoRuntime).is_some() {
            tracing::error!(
                "a rate limit can't renew the holds of requests, so the hold of a long request ends too early: call the \
                 service within a tokio runtime"
            );
        }
    }
}
