//! [`Keyspace`]: whether new keys may be created on a server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::{stopwatch, wire::NewKeys};

/// How long the store creates no new keys after Redis refused a write because it was out of memory, in microseconds. A check
/// that finds enough memory ends it earlier.
const REFUSAL_TIME: u64 = 1_000_000;

/// The number of keys and the memory of a server, as of the last check.
#[derive(Debug, Default)]
pub(crate) struct Keyspace {
    max_keys: Option<u64>,
    /// Keys in the database at the last check.
    keys: AtomicU64,
    /// Maximum number of keys that were created since then.
    created: AtomicU64,
    /// Whether memory was short at the last check.
    memory_is_short: AtomicBool,
    /// Until when the server counts as out of memory after it refused a write, by the stopwatch.
    refuses_until: AtomicU64,
    /// Whether the server can't be checked. Then the number of its keys is not known.
    is_unknown: AtomicBool,
}

impl Keyspace {
    pub(crate) fn new(max_keys: Option<u64>) -> Self {
        Self { max_keys, ..Self::default() }
    }

    /// Whether a decision may create its keys.
    #[inline]
    pub(crate) fn allows(&self, new_keys: NewKeys) -> bool {
        let max = match (new_keys, self.max_keys) {
            (NewKeys::Always, _) => return true,
            (NewKeys::Never, _) => return false,
            (_, None) => u64::MAX,
            _ if self.is_unknown.load(Relaxed) => u64::MAX,
            (NewKeys::OfPolicies, Some(max)) => max,
            (NewKeys::OfCallers, Some(max)) => max / 2,
        };
        !self.has_short_memory() && self.keys.load(Relaxed).saturating_add(self.created.load(Relaxed)) < max
    }

    fn has_short_memory(&self) -> bool {
        let refuses_until = self.refuses_until.load(Relaxed);
        self.memory_is_short.load(Relaxed) || (refuses_until > 0 && stopwatch::micros() < refuses_until)
    }

    /// Counts a decision that may have created a key.
    #[inline]
    pub(crate) fn count_created(&self) {
        self.created.fetch_add(1, Relaxed);
    }

    /// Number of keys that were created since the last check, to be passed to [`record_check`](Self::record_check).
    pub(crate) fn created(&self) -> u64 {
        self.created.load(Relaxed)
    }

    /// Records the result of a check; `created` is the value of [`created`](Self::created) when the check began.
    pub(crate) fn record_check(&self, keys: u64, memory_is_short: bool, created: u64) {
        self.keys.store(keys, Relaxed);
        self.created.fetch_sub(created, Relaxed);
        self.memory_is_short.store(memory_is_short, Relaxed);
        self.refuses_until.store(0, Relaxed);
        self.is_unknown.store(false, Relaxed);
    }

    /// Records that the server can't be checked: until it can, the number of its keys has no maximum.
    pub(crate) fn record_failed_check(&self) {
        self.memory_is_short.store(false, Relaxed);
        self.is_unknown.store(true, Relaxed);
    }

    /// Records that the server refused a write because it has no memory left.
    pub(crate) fn record_out_of_memory(&self) {
        self.refuses_until.store(stopwatch::micros().saturating_add(REFUSAL_TIME), Relaxed);
    }

    /// Describes why there is no room for new keys, in one sentence.
    pub(crate) fn describe(&self) -> String {
        let keys = self.keys.load(Relaxed).saturating_add(self.created.load(Relaxed));
        match self.max_keys {
            _ if self.has_short_memory() => {
                format!("redis uses more than 95 % of its maxmemory, with {keys} keys")
            }
            Some(max) => format!("the database has {keys} keys of {max} (max_keys)"),
            None => format!("the database has {keys} keys"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::{Keyspace, REFUSAL_TIME};
    use crate::{stopwatch, wire::NewKeys};

    #[test]
    fn the_maximum_includes_keys_created_since_the_last_check() {
        let keyspace = Keyspace::new(Some(10));
        keyspace.record_check(7, false, 0);
        assert!(keyspace.allows(NewKeys::OfPolicies) && !keyspace.allows(NewKeys::OfCallers));
        (0..3).for_each(|_| keyspace.count_created());
        assert!(!keyspace.allows(NewKeys::OfPolicies) && keyspace.allows(NewKeys::Always));
        let created = keyspace.created();
        keyspace.count_created();
        keyspace.record_check(8, false, created);
        assert!(keyspace.allows(NewKeys::OfPolicies), "8 and one that was created after the check began");
        keyspace.record_out_of_memory();
        assert!(!keyspace.allows(NewKeys::OfPolicies));
        keyspace.record_check(8, false, 0);
        assert!(keyspace.allows(NewKeys::OfPolicies), "a check found memory");
    }

    #[test]
    fn a_server_that_cannot_be_checked_has_no_maximum_and_its_shortage_of_memory_ends() {
        let keyspace = Keyspace::new(Some(10));
        keyspace.record_check(10, true, 0);
        assert!(!keyspace.allows(NewKeys::OfPolicies));
        keyspace.record_failed_check();
        (0..100).for_each(|_| keyspace.count_created());
        assert!(keyspace.allows(NewKeys::OfPolicies) && keyspace.allows(NewKeys::OfCallers));
        keyspace.record_out_of_memory();
        assert!(!keyspace.allows(NewKeys::OfPolicies));
        let until = keyspace.refuses_until.load(Relaxed);
        assert!((1..=stopwatch::micros() + REFUSAL_TIME).contains(&until), "no longer than a second: {until}");
        keyspace.refuses_until.store(stopwatch::micros(), Relaxed);
        assert!(keyspace.allows(NewKeys::OfPolicies), "that time has passed");
        keyspace.record_check(10, false, keyspace.created());
        assert!(!keyspace.allows(NewKeys::OfPolicies), "it can be checked again");
    }
}
