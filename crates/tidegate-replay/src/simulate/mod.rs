//! Tries limits on simulated or given traffic: what each algorithm admits, and how far it is from exact.
//!
//! - [`boundary`]: a burst at the boundary of two windows, where fixed windows are weakest;
//! - [`accuracy`]: the approximate algorithms compared with `sliding_log`, on several shapes of traffic;
//! - [`evaluation`]: several algorithms on one trace;
//! - [`traffic`]: the traffic as a stream of requests, as CSV or as an access log.
//!
//! [`tidegate::MemoryStore`] makes every decision. It is the engine that enforces the limit. The same options and the same seed give
//! the same results.

pub mod accuracy;
mod algorithms;
pub mod boundary;
pub mod evaluation;
mod random;
pub mod traffic;

pub use algorithms::{approximations, one_of_each, promised};
