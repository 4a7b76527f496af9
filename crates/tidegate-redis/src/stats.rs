//! [`Stats`]: the counters of a store.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{cause::Cause, error::Error};

/// What a store has counted since it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests that Redis decided and admitted.
    pub allowed: u64,
    /// Requests that Redis decided and denied.
    pub denied: u64,
    /// Requests let through without Redis.
    pub degraded_open: u64,
    /// Requests denied without Redis.
    pub degraded_closed: u64,
    /// Requests decided in this process's memory without Redis.
    pub degraded_local: u64,
    /// Requests denied without Redis because it had just denied the same key, until its retry time.
    pub remembered: u64,
    /// Requests for new keys without room in Redis, by [`max_keys`](crate::RedisStoreBuilder::max_keys) or its memory.
    pub no_room: u64,
    /// Why Redis did not answer, by [`Error::name`].
    pub errors: BTreeMap<&'static str, u64>,
    /// Script calls.
    pub calls: u64,
    /// Requests in those calls: as many times more than calls as are batched.
    pub batched: u64,
    /// Requests sent again, because surely nothing had been done.
    pub sent_again: u64,
    /// Times the script had to be loaded.
    pub scripts_loaded: u64,
    /// Connections made.
    pub connections: u64,
    /// Times a breaker opened.
    pub breaker_opened: u64,
    /// Times a breaker closed again.
    pub breaker_closed: u64,
    /// Times a node took another's place: a failover or a moved slot.
    pub redirected: u64,
    /// Decisions that charged, and that fewer replicas had confirmed in time than
    /// [`wait_for_replicas`](crate::RedisStoreBuilder::wait_for_replicas) asks for.
    pub unreplicated: u64,
    /// Whether some server may evict keys, and with them what has been counted.
    pub may_evict: bool,
}

/// The counters behind [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) allowed: AtomicU64,
    pub(crate) denied: AtomicU64,
    pub(crate) degraded_open: AtomicU64,
    pub(crate) degraded_closed: AtomicU64,
    pub(crate) degraded_local: AtomicU64,
    pub(crate) remembered: AtomicU64,
    pub(crate) no_room: AtomicU64,
    errors: [AtomicU64; Cause::ALL.len()],
    pub(crate) calls: AtomicU64,
    pub(crate) batched: AtomicU64,
    pub(crate) sent_again: AtomicU64,
    pub(crate) scripts_loaded: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) breaker_opened: AtomicU64,
    pub(crate) breaker_closed: AtomicU64,
    pub(crate) redirected: AtomicU64,
    pub(crate) unreplicated: AtomicU64,
}

/// Adds one.
#[inline]
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    #[inline]
    pub(crate) fn error(&self, error: &Error) {
        count(&self.errors[error.cause().index()]);
    }

    pub(crate) fn snapshot(&self, may_evict: bool) -> Stats {
        let counts = Cause::ALL.into_iter().zip(&self.errors).map(|(cause, times)| (cause.name(), times.load(Relaxed)));
        let errors = counts.filter(|(_, times)| *times > 0).collect();
        Stats {
            allowed: self.allowed.load(Relaxed),
            denied: self.denied.load(Relaxed),
            degraded_open: self.degraded_open.load(Relaxed),
            degraded_closed: self.degraded_closed.load(Relaxed),
            degraded_local: self.degraded_local.load(Relaxed),
            remembered: self.remembered.load(Relaxed),
            no_room: self.no_room.load(Relaxed),
            errors,
            calls: self.calls.load(Relaxed),
            batched: self.batched.load(Relaxed),
            sent_again: self.sent_again.load(Relaxed),
            scripts_loaded: self.scripts_loaded.load(Relaxed),
            connections: self.connections.load(Relaxed),
            breaker_opened: self.breaker_opened.load(Relaxed),
            breaker_closed: self.breaker_closed.load(Relaxed),
            redirected: self.redirected.load(Relaxed),
            unreplicated: self.unreplicated.load(Relaxed),
            may_evict,
        }
    }
}
