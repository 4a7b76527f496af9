//! [`AnswerBody`]: bodies that a denial can be written into, and that can be watched.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{
    BodyExt as _, Full,
    combinators::{BoxBody, UnsyncBoxBody},
};

/// A response's body that a denial can be made of. The service's own type stays as it is, so that nothing is boxed for a layer's
/// sake: axum's and tonic's bodies (with these features), `Full<Bytes>` and both boxed bodies of `http-body-util`.
#[diagnostic::on_unimplemented(
    message = "a denial can't be written into `{Self}`",
    label = "the service behind the layer responds with this body",
    note = "with the features `axum` or `tonic` of tidegate-tower, their bodies can be answered with",
    note = "other bodies can be boxed before they reach the layer: `response.map(|body| body.boxed_unsync())`"
)]
pub trait AnswerBody: Body<Data = Bytes> + Sized {
    /// A body of these bytes.
    fn of(bytes: Bytes) -> Self;

    /// The same body, with its bytes counted as they are sent.
    #[must_use]
    fn counted(self, count: Count) -> Self;
}

/// Counts the bytes of a body and tells the sum, when it has been sent or nobody wants the rest.
pub struct Count {
    bytes: u64,
    tell: Option<Box<dyn FnOnce(u64) + Send + Sync>>,
}

impl Count {
    pub(crate) fn new(tell: impl FnOnce(u64) + Send + Sync + 'static) -> Self {
        Self { bytes: 0, tell: Some(Box::new(tell)) }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            tell(self.bytes);
        }
    }
}

impl std::fmt::Debug for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Count").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

pin_project_lite::pin_project! {
    /// A body whose bytes are counted.
    struct Counted<B> {
        #[pin]
        body: B,
        count: Count,
    }
}

impl<B: Body<Data = Bytes>> Body for Counted<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            this.count.bytes += data.len() as u64;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl AnswerBody for Full<Bytes> {
    fn of(bytes: Bytes) -> Self {
        Self::new(bytes)
    }

    /// All of it is there: it is counted as sent.
    fn counted(self, mut count: Count) -> Self {
        count.bytes = self.size_hint().exact().unwrap_or(0);
        self
    }
}

fn never<E>(never: Infallible) -> E {
    match never {}
}

impl<E: 'static> AnswerBody for UnsyncBoxBody<Bytes, E> {
    fn of(bytes: Bytes) -> Self {
        Full::new(bytes).map_err(never).boxed_unsync()
    }

    fn counted(self, count: Count) -> Self {
        Counted { body: self, count }.boxed_unsync()
    }
}

impl<E: 'static> AnswerBody for BoxBody<Bytes, E> {
    fn of(bytes: Bytes) -> Self {
        Full::new(bytes).map_err(never).boxed()
    }

    fn counted(self, count: Count) -> Self {
        Counted { body: self, count }.boxed()
    }
}

#[cfg(feature = "axum")]
impl AnswerBody for axum::body::Body {
    fn of(bytes: Bytes) -> Self {
        bytes.into()
    }

    fn counted(self, count: Count) -> Self {
        Self::new(Counted { body: self, count })
    }
}

#[cfg(feature = "tonic")]
impl AnswerBody for tonic::body::Body {
    fn of(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::empty() } else { Self::new(Full::new(bytes)) }
    }

    fn counted(self, count: Count) -> Self {
        Self::new(Counted { body: self, count })
    }
}
