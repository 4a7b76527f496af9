//! Tidegate as a service: rate limits over HTTP, RESP (any Redis client) and gRPC (Envoy). The command `tidegate serve` is this
//! with signals and logs around it; a program of its own can do the same:
//!
//! ```
//! use tidegate_server::{Server, Transport, config::{Config, Overrides}};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let overrides = Overrides::default().server("--http", "http", "127.0.0.1:0");
//! # let overrides = overrides.server("--resp", "resp", "off").server("--grpc", "grpc", "off");
//! let config = Config::parse("limits.toml", "[policies.api]\nlimits = [\"60/1m\"]", &overrides)?;
//! let server = Server::start(config, overrides).await?;
//! println!("ask http://{}/v1/check", server.address(Transport::Http).expect("it is open"));
//! assert_eq!(server.stop().await, 0, "nobody was left unserved");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod certificates;
pub mod config;
mod dashboard;
mod degraded;
mod door;
#[doc(hidden)]
pub mod fuzzing;
mod guesses;
mod import_envoy;
mod in_process;
mod insight;
mod log_lines;
mod logouts;
mod metrics;
mod places;
mod server;
mod service;
mod session;
mod stopwatch;
mod store;
mod supervise;
mod transports;
mod unread;
mod watch;

pub use import_envoy::{ImportError, Imported, import_envoy};
pub use in_process::InProcess;
pub use log_lines::{AUDIT, LOG_LINES, LogLines};
pub use metrics::Transport;
pub use server::{Server, StartError};
pub use service::{Answer, Answers, Ask, By, Live, Price, Refusal, Ruling, Service, Who};
