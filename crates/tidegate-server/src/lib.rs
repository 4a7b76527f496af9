//! Tidegate as a service.

mod access;
mod certificates;
pub mod config;
mod door;
#[doc(hidden)]
pub mod fuzzing;
mod import_envoy;
mod in_process;
mod metrics;
mod server;
mod service;
mod stopwatch;
mod store;
mod transports;
mod watch;

pub use import_envoy::{ImportError, Imported, import_envoy};
pub use in_process::InProcess;
pub use metrics::Transport;
pub use server::{Server, StartError};
pub use service::{Answer, Answers, Ask, By, Live, Price, Refusal, Ruling, Service};
