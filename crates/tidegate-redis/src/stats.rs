//! [`Stats`]: the counters of a store.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::error::{Cause, Error};

/// Declares the counters: each is a number in [`Stats`] and an atomic number in [`Counters`].
macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident,)+) => {
        /// What a store has counted since it was made.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $counter: u64,)+
            /// Why Redis did not answer, by [`Error::name`].
            pub errors: BTreeMap<&'static str, u64>,
            /// Whether some server may evict keys, and with them what has been counted.
            pub may_evict: bool,
        }

        /// The counters behind [`Stats`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $counter: AtomicU64,)+
            errors: [AtomicU64; Cause::ALL.len()],
        }

        impl Counters {
            pub(crate) fn snapshot(&self, may_evict: bool) -> Stats {
                let times = self.errors.iter().map(|times| times.load(Relaxed));
                let errors = Cause::ALL.map(Cause::name).into_iter().zip(times).filter(|(_, times)| *times > 0).collect();
                Stats { $($counter: self.$counter.load(Relaxed),)+ errors, may_evict }
            }
        }
    };
}

counters! {
    /// Requests that Redis decided and admitted.
    allowed,
    /// Requests that Redis decided and denied.
    denied,
    /// Requests let through without Redis.
    degraded_open,
    /// Requests denied without Redis.
    degraded_closed,
    /// Requests decided in this process's memory without Redis.
    degraded_local,
    /// Requests denied without Redis because it had just denied the same key, until its retry time.
    remembered,
    /// Requests for new keys without room in Redis, by [`max_keys`](crate::RedisStoreBuilder::max_keys) or its memory.
    no_room,
    /// Script calls.
    calls,
    /// Requests in those calls: as many times more than calls as are batched.
    batched,
    /// Requests sent again, because surely nothing had been done.
    sent_again,
    /// Times the script had to be loaded.
    scripts_loaded,
    /// Connections made.
    connections,
    /// Times a breaker opened.
    breaker_opened,
    /// Times a breaker closed again.
    breaker_closed,
    /// Times a node took another's place: a failover or a moved slot.
    redirected,
    /// Holds and leases that Redis granted.
    grants,
    /// Holds and leases that ended by themselves, because nobody settled them in time. An end is counted by the store whose
    /// operation finds it.
    reservations_ended,
    /// Commits, releases, renewals and settles of reservations that were not open.
    unknown_commits,
    /// Holds that were not released when their guard was dropped, because too many releases were under way or Redis did
    /// not answer. They end by themselves.
    releases_dropped,
    /// Decisions that charged, and that fewer replicas had confirmed in time than
    /// [`wait_for_replicas`](crate::RedisStoreBuilder::wait_for_replicas) asks for.
    unreplicated,
}

/// Adds one.
#[inline]
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    #[inline]
    pub(crate) fn error(&self, error: &Error) {
        count(&self.errors[error.cause() as usize]);
    }
}
