//! [`ResponseBody`]: body types that can contain a denial, and whose bytes can be counted.

use std::convert::Infallible;

use bytes::Bytes;
use http_body::Body;
use http_body_util::{
    BodyExt as _, Full,
    combinators::{BoxBody, UnsyncBoxBody},
};
use tidegate::now_or_never;

use super::counter::{ByteCounter, CountedBody};

/// A body type that can contain a denial. The layer keeps the body type of the service and boxes nothing.
///
/// axum's and tonic's bodies (with these features), `Full<Bytes>` and both boxed bodies of `http-body-util` implement
/// it.
#[diagnostic::on_unimplemented(
    message = "a denial can't be written into `{Self}`",
    label = "the inner service responds with this body",
    note = "the features `axum` and `tonic` of tidegate-tower implement `ResponseBody` for their bodies",
    note = "box other bodies before they reach the layer: `response.map(|body| body.boxed_unsync())`"
)]
pub trait ResponseBody: Body<Data = Bytes> + Sized {
    /// A body with these bytes.
    fn from_bytes(bytes: Bytes) -> Self;

    /// Counts the bytes of the body while they are sent. The body and its bytes keep the counter until they are dropped.
    #[must_use]
    fn with_counter(self, counter: ByteCounter) -> Self;
}

impl ResponseBody for Full<Bytes> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(bytes)
    }

    fn with_counter(mut self, counter: ByteCounter) -> Self {
        match now_or_never(self.frame()) {
            Some(Some(Ok(frame))) => Self::new(counter.count(frame.into_data().unwrap_or_default())),
            _ => self,
        }
    }
}

fn infallible<E>(error: Infallible) -> E {
    match error {}
}

impl<E: 'static> ResponseBody for UnsyncBoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Full::new(bytes).map_err(infallible).boxed_unsync()
    }

    fn with_counter(self, counter: ByteCounter) -> Self {
        CountedBody::new(self, counter).boxed_unsync()
    }
}

impl<E: 'static> ResponseBody for BoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Full::new(bytes).map_err(infallible).boxed()
    }

    fn with_counter(self, counter: ByteCounter) -> Self {
        CountedBody::new(self, counter).boxed()
    }
}

#[cfg(feature = "axum")]
impl ResponseBody for axum::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        bytes.into()
    }

    fn with_counter(self, counter: ByteCounter) -> Self {
        Self::new(CountedBody::new(self, counter))
    }
}

#[cfg(feature = "tonic")]
impl ResponseBody for tonic::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::empty() } else { Self::new(Full::new(bytes)) }
    }

    fn with_counter(self, counter: ByteCounter) -> Self {
        Self::new(CountedBody::new(self, counter))
    }
}
