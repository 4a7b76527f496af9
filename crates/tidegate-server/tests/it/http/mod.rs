//! The HTTP API.

mod access;
mod bad_input;
pub(crate) mod client;
mod dashboard;
mod decisions;
mod dialects;
pub(crate) mod events;
mod forward;
mod login;
mod overrides;
mod status;
mod watched_keys;
