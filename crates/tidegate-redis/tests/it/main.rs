//! The promises of the Redis store, tested on real servers.
//!
//! `conformance` runs the suites that every store passes. The other modules test what only Redis has.

#![allow(
    clippy::duration_suboptimal_units,
    clippy::unchecked_time_subtraction,
    reason = "exact microseconds are tested"
)]

mod access;
mod batching;
mod clock_far_back;
mod conformance;
mod constant_work;
mod decide_all_slots;
mod degraded_states;
mod failure_choice;
mod footprint;
mod key_bound;
mod leases;
mod long_logs;
mod override_agreement;
mod overrides;
mod processes;
mod replicas;
mod reservation_figures;
mod reservations;
