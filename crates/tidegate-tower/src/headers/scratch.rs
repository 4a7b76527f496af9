//! Values of headers, many of which share one piece of memory: one small allocation for each answer is what a limiter would be
//! noticed by.

use std::cell::RefCell;

use bytes::{BufMut as _, BytesMut};
use http::HeaderValue;

/// As much as a value that outlives its answer can hold on to.
const PIECE: usize = 4096;

thread_local! {
    static PIECE_OF_THIS_THREAD: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// `"name";r=1;t=2`
pub(super) fn standing(name: &str, remaining: u64, wait: u64) -> HeaderValue {
    // Two numbers have 40 digits at the most.
    value(name.len() + 48, |piece| {
        let mut number = itoa::Buffer::new();
        piece.put_u8(b'"');
        piece.put_slice(name.as_bytes());
        piece.put_slice(b"\";r=");
        piece.put_slice(number.format(remaining).as_bytes());
        piece.put_slice(b";t=");
        piece.put_slice(number.format(wait).as_bytes());
    })
}

/// A copy of what is a header's value already.
pub(super) fn text(value_of: &[u8]) -> HeaderValue {
    value(value_of.len(), |piece| piece.put_slice(value_of))
}

/// A number alone.
pub(super) fn number(number: u64) -> HeaderValue {
    value(20, |piece| piece.put_slice(itoa::Buffer::new().format(number).as_bytes()))
}

fn value(longest: usize, write: impl FnOnce(&mut BytesMut)) -> HeaderValue {
    PIECE_OF_THIS_THREAD.with_borrow_mut(|piece| {
        if piece.capacity() < longest {
            *piece = BytesMut::with_capacity(PIECE.max(longest));
        }
        write(piece);
        // Digits and names of printable ASCII are always a header.
        HeaderValue::from_maybe_shared(piece.split().freeze()).unwrap_or_else(|_| HeaderValue::from_static(""))
    })
}
