//! The suites: one module for each macro, one public function for each test.
//!
//! A test that needs other macros or another harness can call the functions directly. Each panics if the store breaks its
//! promise.

pub mod agreement;
pub mod caller_limits;
pub mod changed_limits;
pub mod decide_all;
pub mod denials;
pub mod long_histories;
pub mod overrides;
pub mod refunds;
pub mod reservation_vectors;
pub mod reservations;
pub mod reservations_under_overrides;
pub mod reserve_all;
pub mod saturation;
pub mod shadow;
pub mod vectors;
pub mod waits;
pub mod windows;
