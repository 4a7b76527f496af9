//! HTTP: shapes, statuses, headers, and who is let in.

mod access;
mod bad_input;
pub(crate) mod client;
mod decisions;
mod dialects;
mod forward;
mod status;
