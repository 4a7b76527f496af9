//! [`ResponseBody`]: body types that can contain a denial, and whose bytes can be counted.

use std::convert::Infallible;

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::{
    BodyExt as _, Full,
    combinators::{BoxBody, UnsyncBoxBody},
};
use tidegate::now_or_never;

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

    /// Counts the bytes of the body while they are sent. The body keeps the counter until it is dropped.
    #[must_use]
    fn with_counter(self, counter: ByteCounter) -> Self;
}

/// Counts the bytes of a body. When it is dropped, it reports the sum, and the request ends.
pub struct ByteCounter {
    bytes: u64,
    report: Option<Box<dyn FnOnce(u64) + Send + Sync>>,
}

impl ByteCounter {
    pub(crate) fn new(report: impl FnOnce(u64) + Send + Sync + 'static) -> Self {
        Self { bytes: 0, report: Some(Box::new(report)) }
    }

    fn count(&mut self, frame: &Frame<Bytes>) {
        self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
}

impl Drop for ByteCounter {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            report(self.bytes);
        }
    }
}

impl std::fmt::Debug for ByteCounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByteCounter").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl ResponseBody for Full<Bytes> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(bytes)
    }

    fn with_counter(mut self, mut counter: ByteCounter) -> Self {
        let Some(Some(Ok(frame))) = now_or_never(self.frame()) else { return self };
        counter.count(&frame);
        let bytes = frame.into_data().unwrap_or_default();
        // The counter is dropped with the bytes, when they have been sent.
        Self::new(Bytes::from_owner(CountedBytes { bytes, _counter: counter }))
    }
}

/// Bytes, and the counter that lives as long as they do.
struct CountedBytes {
    bytes: Bytes,
    _counter: ByteCounter,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn infallible<E>(error: Infallible) -> E {
    match error {}
}

impl<E: 'static> ResponseBody for UnsyncBoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Full::new(bytes).map_err(infallible).boxed_unsync()
    }

    fn with_counter(self, mut counter: ByteCounter) -> Self {
        self.inspect_frame(move |frame| counter.count(frame)).boxed_unsync()
    }
}

impl<E: 'static> ResponseBody for BoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Full::new(bytes).map_err(infallible).boxed()
    }

    fn with_counter(self, mut counter: ByteCounter) -> Self {
        self.inspect_frame(move |frame| counter.count(frame)).boxed()
    }
}

#[cfg(feature = "axum")]
impl ResponseBody for axum::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        bytes.into()
    }

    fn with_counter(self, mut counter: ByteCounter) -> Self {
        Self::new(self.inspect_frame(move |frame| counter.count(frame)))
    }
}

#[cfg(feature = "tonic")]
impl ResponseBody for tonic::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::empty() } else { Self::new(Full::new(bytes)) }
    }

    fn with_counter(self, mut counter: ByteCounter) -> Self {
        Self::new(self.inspect_frame(move |frame| counter.count(frame)))
    }
}
