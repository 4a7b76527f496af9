//! [`Settings`]: timeouts, sizes and bounds of a store.

use std::time::Duration;

use tidegate::AtCapacity;

use crate::replicas::Replicas;

/// What a [`RedisStoreBuilder`](crate::RedisStoreBuilder) has set.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The prefix of all keys.
    pub(crate) prefix: String,
    /// Maximum time that a decision waits for Redis.
    pub(crate) timeout: Duration,
    /// Maximum duration of opening a connection.
    pub(crate) connect_timeout: Duration,
    /// Failures in a row that open a node's breaker.
    pub(crate) breaker_after: u32,
    /// The interval at which a server that does not answer is probed.
    pub(crate) probe_interval: Duration,
    /// Maximum number of requests in one call of the script.
    pub(crate) batch: usize,
    /// Maximum number of requests that wait for one node.
    pub(crate) queue: usize,
    /// The replicas that must have a charge before its caller is answered.
    pub(crate) replicas: Option<Replicas>,
    /// Maximum number of overrides of one policy.
    pub(crate) max_overrides: usize,
    /// Maximum number of keys in a server's database.
    pub(crate) max_keys: Option<u64>,
    /// How requests for new keys are decided at that maximum.
    pub(crate) at_capacity: AtCapacity,
    /// Whether a server's memory and number of keys are checked.
    pub(crate) checks_health: bool,
    /// The number of entries in a page of a log, in tests.
    pub(crate) page: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prefix: "tg".to_owned(),
            timeout: Duration::from_millis(15),
            connect_timeout: Duration::from_millis(500),
            breaker_after: 5,
            probe_interval: Duration::from_millis(200),
            batch: 128,
            queue: 4096,
            replicas: None,
            max_overrides: 10_000,
            max_keys: None,
            at_capacity: AtCapacity::default(),
            checks_health: true,
            page: None,
        }
    }
}
