//! Attacks on the service.

mod addresses;
mod child;
mod raw_http2;
mod unread_responses;
mod wrong_tokens;
