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

/// A list of what are lists already, in one line: not everyone reads more than the first.
pub(super) fn list<'a>(lists: impl Iterator<Item = &'a [u8]> + Clone) -> HeaderValue {
    let longest = lists.clone().map(|list| list.len() + 2).sum();
    value(longest, |piece| {
        for (number, list) in lists.enumerate() {
            piece.put_slice(if number == 0 { b"" } else { b", " });
            piece.put_slice(list);
        }
    })
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
