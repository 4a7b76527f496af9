//! [`UnreadBody`]: a response body whose bytes are counted until the peer has read them, or the connection is gone.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    body::Body,
    http::{Response, Version},
    response::IntoResponse as _,
};
use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::problem::Problem;
use crate::connections::{MemoryCharge, Reservation};

/// Number of bytes that are handed to the protocol at once. A peer that has read a chunk counts as reading.
const CHUNK: usize = 16 << 10;

/// Over HTTP/1 a connection has one response at a time. Smaller responses count as memory of the connection itself.
const COUNTED_OVER_HTTP1: u64 = 4 << 10;

/// Bytes of the response that are reserved for each of several checks.
const BYTES_PER_CHECK: usize = 512;

/// A body, or the rest of it.
pub(super) struct UnreadBody {
    /// Known bytes that have not been handed over yet, and their charge.
    known: Bytes,
    charge: Option<Arc<MemoryCharge>>,
    /// The body after the known bytes.
    rest: Option<Body>,
    /// The reserved memory for the rest of the body, if the rest is counted.
    reservation: Option<Arc<Reservation>>,
}

/// Bytes with the charge for their memory.
struct Chunk {
    bytes: Bytes,
    charge: Arc<MemoryCharge>,
}

/// Reserves memory for the response to several checks before any of them is decided, so that none is charged in vain.
pub(super) fn make_room(reservation: Option<&Arc<Reservation>>, checks: usize) -> Result<(), Problem> {
    // The overall decision counts as one more.
    if reservation.is_none_or(|reservation| reservation.make_room((checks + 1) * BYTES_PER_CHECK)) {
        return Ok(());
    }
    Err(Problem::no_memory())
}

/// Counts the body of a response. If there is no memory for it and it is refusable, an error is sent instead.
///
/// A response is not refusable if the request may have changed something.
pub(super) fn count(
    response: Response<Body>,
    version: Version,
    is_refusable: bool,
    reservation: Arc<Reservation>,
) -> Response<UnreadBody> {
    let (parts, mut body) = response.into_parts();
    let size = body.size_hint().exact();
    if size == Some(0) || version != Version::HTTP_2 && size.is_some_and(|size| size <= COUNTED_OVER_HTTP1) {
        return Response::from_parts(parts, UnreadBody::uncounted(body));
    }
    // A body that is complete yields all its bytes at once.
    let first = size.and_then(|_| body.frame().now_or_never()).flatten();
    let Some(known) = first.and_then(Result::ok).and_then(|frame| frame.into_data().ok()) else {
        let reservation = Some(reservation);
        let unread = UnreadBody { known: Bytes::new(), charge: None, rest: Some(body), reservation };
        return Response::from_parts(parts, unread);
    };
    // A buffer that grew may be half empty. A shared buffer, such as a file of the page, needs no memory of its own.
    let memory = if known.is_unique() { known.len().next_power_of_two() } else { 0 };
    let fits = reservation.make_room(memory);
    if !fits && is_refusable {
        return count(Problem::no_memory().into_response(), version, false, reservation);
    }
    if !fits {
        reservation.take(memory);
    }
    let charge = Some(Arc::new(reservation.charge(0)));
    let rest = (!body.is_end_stream()).then_some(body);
    let reservation = rest.as_ref().map(|_| reservation);
    Response::from_parts(parts, UnreadBody { known, charge, rest, reservation })
}

impl UnreadBody {
    /// Returns a body that is not counted, because it needs almost no memory.
    pub(super) fn uncounted(body: Body) -> Self {
        Self { known: Bytes::new(), charge: None, rest: Some(body), reservation: None }
    }
}

impl HttpBody for UnreadBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if let Some(charge) = &this.charge {
            let bytes = this.known.split_to(this.known.len().min(CHUNK));
            let chunk = Chunk { bytes, charge: Arc::clone(charge) };
            if this.known.is_empty() {
                this.charge = None;
            }
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(chunk)))));
        }
        let Some(rest) = &mut this.rest else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(rest).poll_frame(context));
        Poll::Ready(match (&this.reservation, frame) {
            (Some(reservation), Some(Ok(frame))) => Some(Ok(frame.map_data(|bytes| {
                let charge = Arc::new(reservation.charge(bytes.len().next_power_of_two()));
                Bytes::from_owner(Chunk { bytes, charge })
            }))),
            (_, frame) => frame,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.charge.is_none() && self.rest.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.rest {
            Some(rest) if self.known.is_empty() => rest.size_hint(),
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.known.len() as u64),
        }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.charge.progressed();
    }
}
