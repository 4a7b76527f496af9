//! Attacks, as an adversary would carry them out.

mod addresses;
mod child;
mod wrong_tokens;
mod raw_http2;
mod unread_responses;
