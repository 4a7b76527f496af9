//! [`ArrivingBody`]: the body of a request. Its arrival is watched.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::connections::ArrivingRequest;

/// A body that may not have arrived completely.
pub(super) struct ArrivingBody {
    body: Incoming,
    arriving: Option<ArrivingRequest>,
}

impl ArrivingBody {
    pub(super) fn new(body: Incoming, arriving: Option<ArrivingRequest>) -> Self {
        Self { body, arriving }
    }
}

impl Body for ArrivingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.arriving = None;
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
