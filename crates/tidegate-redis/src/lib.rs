#![doc = include_str!("../README.md")]

mod breaker;
mod fallback;
mod job;
mod key_name;
mod link;
mod node;
mod replicas;
mod router;
mod script;
mod sentinel;
mod server_clock;
mod settings;
mod several;
mod stats;
mod stopwatch;
mod store;
mod target;
mod trouble;
mod wire;

pub use breaker::BreakerState;
pub use stats::Stats;
pub use store::{RedisStore, RedisStoreBuilder};
pub use target::UrlError;
pub use trouble::Trouble;
