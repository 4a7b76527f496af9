#![doc = include_str!("../README.md")]

mod breaker;
mod builder;
mod decide;
mod degraded_states;
mod denials;
mod driven_connection;
mod error;
mod fallback;
mod key_name;
mod keyspace;
mod log;
mod node;
mod operations;
mod override_record;
mod overrides;
mod pending_request;
mod replicas;
mod reply;
mod report;
mod response_times;
mod router;
mod script;
mod server_clock;
mod settings;
mod stats;
mod stopwatch;
mod store;
mod supervise;
mod target;
mod wire;

pub use breaker::BreakerState;
pub use builder::RedisStoreBuilder;
pub use error::Error;
pub use stats::Stats;
pub use store::RedisStore;
pub use target::UrlError;
