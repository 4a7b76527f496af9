//! Real faults in the middle of a run, and the decisions that callers get meanwhile.
//!
//! `load` requests decisions continuously. A scenario waits for progress, causes its fault, ends it and waits for progress
//! again. `account` then accounts for every decision, finds the fullest window, compares the admitted units with those that
//! Redis has, and prints a row of the table in `docs/faults.md`. `redis_errors` causes each error of Redis on its own.
//!
//! Durations are printed and never asserted.

#![allow(clippy::disallowed_methods, reason = "faults take real time, and the duration of decisions is printed")]

mod absent;
mod account;
mod client_kill;
mod cluster_failover;
mod kill;
mod load;
mod memory;
mod redis_errors;
mod resharding;
mod script_flush;
mod sentinel_failover;
mod slow;
mod stop;
mod subjects;
mod waiting;
