//! Measures Tidegate and compares it with other limiters.
//!
//! [`compare`] runs every contender of [`contenders`] over the workloads of [`workload`] and returns a
//! [`report`]. [`redis_store`] compares the Redis store with the scripts of other
//! projects. [`service`] measures the service from outside, [`middleware`] the cost of a layer,
//! [`replay`] the time of a log replay, and [`holds`] the time of holds in memory.

mod cargo;
pub mod compare;
pub mod contenders;
pub mod heap;
pub mod holds;
pub mod leases;
pub mod machine;
pub mod measure;
pub mod middleware;
pub mod options;
pub mod progress;
pub mod redis_store;
pub mod replay;
pub mod report;
pub mod saturated_log;
pub mod service;
pub mod stopwatch;
mod table;
pub mod tally;
pub mod workload;
