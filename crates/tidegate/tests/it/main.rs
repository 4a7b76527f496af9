//! The promises of the library, tested from outside.
//!
//! - `conformance`: the suites that every store passes
//! - `bad_input`: invalid input
//! - `capacity`, `floods`: more keys and shapes than there is room for
//! - `fail_safe`: a store that gives no answer or a wrong one
//! - `guide`: the test that the guide of the crate shows
//! - `hold_guard`: holds of async code
//! - `key_state`: the state of one key, for stores outside the library
//! - `operations`: peek, charge, refund, reset and inspect
//! - `reservations`, `reservation_capacity`: holds and leases, and their bounds
//! - `reservation_waits`: waits on keys with many open reservations
//! - `overrides`, `override_storage`: overrides of single keys, and how the store keeps them

#![allow(
    clippy::duration_suboptimal_units,
    clippy::unchecked_time_subtraction,
    reason = "exact microseconds are tested"
)]

mod bad_input;
mod capacity;
mod conformance;
mod fail_safe;
mod floods;
mod guide;
mod hold_guard;
mod key_state;
mod operations;
mod override_storage;
mod overrides;
mod reservation_capacity;
mod reservation_waits;
mod reservations;
