//! Header values that share a buffer, because one allocation for each value would be the largest cost of a decision.

use std::cell::RefCell;

use bytes::{BufMut as _, BytesMut};
use http::HeaderValue;

/// The size of a buffer. A value that outlives its response keeps the whole buffer alive.
const BUFFER_SIZE: usize = 4096;

thread_local! {
    static BUFFER: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// `"name";r=1;t=2`
pub(super) fn quota(name: &str, remaining: u64, wait: u64) -> HeaderValue {
    // Two numbers have at most 40 digits.
    value(name.len() + 48, |buffer| {
        let mut number = itoa::Buffer::new();
        buffer.put_u8(b'"');
        buffer.put_slice(name.as_bytes());
        buffer.put_slice(b"\";r=");
        buffer.put_slice(number.format(remaining).as_bytes());
        buffer.put_slice(b";t=");
        buffer.put_slice(number.format(wait).as_bytes());
    })
}

/// Joins lists into one value, because some clients read only the first header line.
pub(super) fn list<'a>(lists: impl Iterator<Item = &'a [u8]> + Clone) -> HeaderValue {
    let max_len = lists.clone().map(|list| list.len() + 2).sum();
    value(max_len, |buffer| {
        for (number, list) in lists.enumerate() {
            buffer.put_slice(if number == 0 { b"" } else { b", " });
            buffer.put_slice(list);
        }
    })
}

/// A number.
pub(super) fn number(number: u64) -> HeaderValue {
    value(20, |buffer| buffer.put_slice(itoa::Buffer::new().format(number).as_bytes()))
}

fn value(max_len: usize, write: impl FnOnce(&mut BytesMut)) -> HeaderValue {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.capacity() < max_len {
            *buffer = BytesMut::with_capacity(BUFFER_SIZE.max(max_len));
        }
        write(buffer);
        // Digits and names of printable ASCII are always a valid header.
        HeaderValue::from_maybe_shared(buffer.split().freeze()).unwrap_or_else(|_| HeaderValue::from_static(""))
    })
}
