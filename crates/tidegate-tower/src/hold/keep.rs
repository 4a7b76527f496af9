//! [`RequestHold`] and [`KeptHold`]: the hold of a request that lasts longer than its response.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use http::Extensions;
use parking_lot::Mutex;

use super::OpenHold;

/// A hold that the response, its bytes and the service's own tasks share. The last of them ends it.
#[derive(Debug, Clone)]
pub(crate) struct SharedHold(Arc<Mutex<OpenHold>>);

impl SharedHold {
    pub(crate) fn new(hold: OpenHold) -> Self {
        Self(Arc::new(Mutex::new(hold)))
    }

    /// Calls `change` with the hold.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut OpenHold) -> T) -> T {
        change(&mut self.0.lock())
    }

    /// Returns the hold, unless others keep it.
    pub(crate) fn into_inner(self) -> Option<OpenHold> {
        Arc::into_inner(self.0).map(Mutex::into_inner)
    }

    /// Inserts the [`RequestHold`] into the extensions of the request.
    pub(crate) fn insert_into(&self, extensions: &mut Extensions) {
        let hold = Arc::downgrade(&self.0);
        // A layer around this one may have inserted its own.
        let others = extensions.remove::<RequestHold>();
        let holds = others.iter().flat_map(|others| others.holds.iter().cloned()).chain([hold]).collect();
        extensions.insert(RequestHold { holds });
    }
}

/// The hold of a request, in the extensions of the request. [`keep`](Self::keep) makes it last longer than the response.
///
/// The layer inserts it if the request is reserved. A connection that is upgraded, such as a WebSocket, and work that goes on in
/// the background after the response, keep the hold for as long as they run:
///
/// ```
/// use axum::{Extension, response::IntoResponse};
/// use tidegate_tower::RequestHold;
///
/// async fn handler(hold: Option<Extension<RequestHold>>) -> impl IntoResponse {
///     let kept = hold.and_then(|hold| hold.keep());
///     tokio::spawn(async move {
///         // … the work, which counts until this task ends:
///         drop(kept);
///     });
///     "accepted"
/// }
/// # let _ = handler;
/// ```
#[derive(Clone)]
pub struct RequestHold {
    /// One for each layer around the service that has reserved the request.
    holds: Box<[Weak<Mutex<OpenHold>>]>,
}

impl RequestHold {
    /// Keeps the hold open until the result is dropped, at least until the end of the response. The layer goes on to renew it.
    /// `None` if the hold has ended already.
    ///
    /// The final costs of the request are committed then. They come from the response, as always.
    pub fn keep(&self) -> Option<KeptHold> {
        let holds: Box<[_]> = self.holds.iter().filter_map(Weak::upgrade).map(SharedHold).collect();
        (!holds.is_empty()).then_some(KeptHold { _holds: holds })
    }
}

impl fmt::Debug for RequestHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHold").finish_non_exhaustive()
    }
}

/// Keeps the hold of a request open until it is dropped. Clones keep the same hold.
#[must_use = "the hold ends when this is dropped"]
#[derive(Clone)]
pub struct KeptHold {
    _holds: Box<[SharedHold]>,
}

impl fmt::Debug for KeptHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptHold").finish_non_exhaustive()
    }
}
