//! Tidegate as a service.

mod access;
mod certificates;
pub mod config;
mod door;
#[doc(hidden)]
pub mod fuzzing;
mod metrics;
mod server;
mod service;
mod stopwatch;
mod store;
mod transports;
mod watch;

pub use metrics::Transport;
pub use server::{Server, StartError};
pub use service::{Answer, Answers, Ask, By, Live, Price, Refusal, Ruling, Service};
