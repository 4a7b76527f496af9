//! Faults, caused for real in the middle of a run, and what callers got meanwhile.
//!
//! `load` asks a store for decisions without end; a scenario lets it proceed, causes its fault, lifts it and lets it proceed
//! again. `account` then accounts for every decision, looks for the fullest window, compares what was admitted with what
//! Redis holds, and prints a row of the table in `docs/faults.md`. `by_name` causes each of Redis's errors on its own.
//!
//! How long things take is told and never asserted.

#![allow(clippy::disallowed_methods, reason = "faults take real time, and how long decisions took is told")]

mod absent;
mod account;
mod by_name;
mod client_kill;
mod cluster_failover;
mod kill;
mod load;
mod memory;
mod patience;
mod resharding;
mod script_flush;
mod sentinel_failover;
mod slow;
mod stop;
mod subjects;
