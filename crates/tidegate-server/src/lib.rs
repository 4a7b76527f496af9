//! Tidegate as a service: rate limits over HTTP, RESP (any Redis client) and gRPC (Envoy). The command `tidegate serve` adds
//! signals and logs. Another program can start the service in the same way:
//!
//! ```
//! use tidegate_server::{Server, Transport, config::{Config, SettingSources}};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let sources = SettingSources::default().server("--http", "http", "127.0.0.1:0");
//! # let sources = sources.server("--resp", "resp", "off").server("--grpc", "grpc", "off");
//! let config = Config::parse("limits.toml", "[policies.api]\nlimits = [\"60/1m\"]", &sources)?;
//! let server = Server::start(config, sources).await?;
//! println!("POST http://{}/v1/check", server.address(Transport::Http).expect("HTTP is enabled"));
//! assert_eq!(server.stop().await, 0, "all connections have ended");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod auth;
pub mod config;
mod connections;
mod context;
pub mod dashboard;
#[doc(hidden)]
pub mod fuzzing;
mod guarded_store;
mod import_envoy;
mod in_process;
mod metrics;
mod reload;
mod server;
mod service;
mod store;
mod supervise;
mod transports;

pub use import_envoy::{ImportError, Imported, import_envoy};
pub use in_process::InProcess;
pub use metrics::{AUDIT, LOG_LINES, LogLines, Transport};
pub use server::{Server, StartError};
pub use service::{
    ActivePolicies, Actor, DegradedState, KeyLabel, KeyRequest, KeyText, LimitSource, PolicyDecision, PolicyDecisions,
    Price, Refusal, ResolvedPolicy, Service,
};
pub use store::open as open_store;
pub use transports::http::api;
