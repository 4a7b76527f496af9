//! Measures Tidegate and compares it with other limiters.
//!
//! [`compare`] runs every contender of [`contenders`] over the workloads of [`workload`] and gives a
//! [`report`], which [`table`] prints. [`redis_store`] measures the shared store beside
//! the scripts that others run in Redis. [`service`] measures the service from outside, [`middleware`]
//! what a layer costs a server, [`replay`] how fast a log is replayed.

mod binary;
mod cargo;
pub mod compare;
pub mod contenders;
pub mod heap;
pub mod machine;
pub mod measure;
pub mod middleware;
pub mod progress;
pub mod redis_store;
pub mod replay;
pub mod report;
pub mod saturated_log;
pub mod service;
pub mod stopwatch;
pub mod table;
pub mod workload;
