//! [`ByteCounter`]: counts the bytes of a body, and reports them when all of them have been sent.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Counts the bytes of a body. When it is dropped, it reports the sum, and the request ends.
///
/// The body and all of its bytes keep the counter. So it reports when the server has written the last bytes to its
/// connection, or the connection is closed.
#[derive(Clone)]
pub struct ByteCounter(Arc<SharedCounter>);

/// It is dropped with the last of the body and its bytes.
struct SharedCounter {
    bytes: AtomicU64,
    report: Option<Box<dyn FnOnce(u64) + Send + Sync>>,
}

impl ByteCounter {
    pub(crate) fn new(report: impl FnOnce(u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(SharedCounter { bytes: AtomicU64::new(0), report: Some(Box::new(report)) }))
    }

    /// Counts the bytes. They keep the counter until they are dropped.
    pub(super) fn count(&self, bytes: Bytes) -> Bytes {
        self.0.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if bytes.is_empty() { bytes } else { Bytes::from_owner(CountedBytes { bytes, _counter: self.clone() }) }
    }
}

impl Drop for SharedCounter {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            report(*self.bytes.get_mut());
        }
    }
}

impl fmt::Debug for ByteCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteCounter").field("bytes", &self.0.bytes).finish_non_exhaustive()
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

pin_project_lite::pin_project! {
    /// A body whose bytes are counted.
    pub(super) struct CountedBody<B> {
        #[pin]
        inner: B,
        counter: ByteCounter,
    }
}

impl<B> CountedBody<B> {
    pub(super) fn new(inner: B, counter: ByteCounter) -> Self {
        Self { inner, counter }
    }
}

impl<B: Body<Data = Bytes>> Body for CountedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.inner.poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(|data| this.counter.count(data)))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
