#![doc = include_str!("../README.md")]

mod breaker;
mod builder;
mod degradation;
mod fallback;
mod job;
mod key_name;
mod link;
mod node;
mod override_record;
mod overrides;
mod replicas;
mod reply;
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
pub use builder::RedisStoreBuilder;
pub use degradation::Degradation;
pub use overrides::OverrideTrouble;
pub use stats::Stats;
pub use store::RedisStore;
pub use target::UrlError;
pub use trouble::Trouble;
