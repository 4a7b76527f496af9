//! Attacks, as an adversary would carry them out.

mod addresses;
mod child;
mod guesses;
mod raw_http2;
mod unread;
