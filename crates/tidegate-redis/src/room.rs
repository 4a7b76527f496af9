//! [`Room`]: whether new keys may be created on a server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::{stopwatch, wire::NewKeys};

/// How long the store creates no new keys after Redis refused a write because it was out of memory, in microseconds. A check
/// that finds enough memory ends it earlier.
const REFUSAL: u64 = 1_000_000;

/// The number of keys and the memory of a server, as far as known.
#[derive(Debug)]
pub(crate) struct Room {
    max_keys: Option<u64>,
    /// Keys in the database at the last check.
    keys: AtomicU64,
    /// Maximum number of keys that were created since then.
    made: AtomicU64,
    /// Whether memory was short at the last check.
    memory_is_short: AtomicBool,
    /// Until when the server counts as out of memory since it refused a write, by the stopwatch.
    refuses_until: AtomicU64,
    /// Whether the server can't be checked. Then the number of its keys is not known.
    is_unknown: AtomicBool,
}

impl Room {
    pub(crate) fn new(max_keys: Option<u64>) -> Self {
        Self {
            max_keys,
            keys: AtomicU64::new(0),
            made: AtomicU64::new(0),
            memory_is_short: AtomicBool::new(false),
            refuses_until: AtomicU64::new(0),
            is_unknown: AtomicBool::new(false),
        }
    }

    /// Whether a decision may create its keys.
    #[inline]
    pub(crate) fn allows(&self, new_keys: NewKeys) -> bool {
        let bound = match (new_keys, self.max_keys) {
            (NewKeys::Always, _) => return true,
            (NewKeys::Never, _) => return false,
            (_, None) => u64::MAX,
            _ if self.is_unknown.load(Relaxed) => u64::MAX,
            (NewKeys::OfPolicies, Some(max)) => max,
            (NewKeys::OfCallers, Some(max)) => max / 2,
        };
        !self.has_short_memory() && self.keys.load(Relaxed).saturating_add(self.made.load(Relaxed)) < bound
    }

    fn has_short_memory(&self) -> bool {
        let refuses_until = self.refuses_until.load(Relaxed);
        self.memory_is_short.load(Relaxed) || (refuses_until > 0 && stopwatch::micros() < refuses_until)
    }

    /// Counts a decision that may have created a key.
    #[inline]
    pub(crate) fn made_one(&self) {
        self.made.fetch_add(1, Relaxed);
    }

    /// Number of keys that were created since the last check, to be passed to [`looked`](Self::looked).
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Relaxed)
    }

    /// Records the result of a check; `made` is the value of [`made`](Self::made) when the server was asked.
    pub(crate) fn looked(&self, keys: u64, memory_is_short: bool, made: u64) {
        self.keys.store(keys, Relaxed);
        self.made.fetch_sub(made, Relaxed);
        self.memory_is_short.store(memory_is_short, Relaxed);
        self.refuses_until.store(0, Relaxed);
        self.is_unknown.store(false, Relaxed);
    }

    /// Records that the server can't be checked: the number of its keys is not bounded until it can.
    pub(crate) fn not_looked(&self) {
        self.memory_is_short.store(false, Relaxed);
        self.is_unknown.store(true, Relaxed);
    }

    /// Records that the server refused a write because it has no memory left.
    pub(crate) fn memory_ran_out(&self) {
        self.refuses_until.store(stopwatch::micros().saturating_add(REFUSAL), Relaxed);
    }

    /// Why there is no room, in one sentence.
    pub(crate) fn describe(&self) -> String {
        let keys = self.keys.load(Relaxed).saturating_add(self.made.load(Relaxed));
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

    use super::{REFUSAL, Room};
    use crate::{stopwatch, wire::NewKeys};

    #[test]
    fn the_bound_counts_what_was_made_since_the_server_was_looked_at() {
        let room = Room::new(Some(10));
        room.looked(7, false, 0);
        assert!(room.allows(NewKeys::OfPolicies) && !room.allows(NewKeys::OfCallers));
        (0..3).for_each(|_| room.made_one());
        assert!(!room.allows(NewKeys::OfPolicies) && room.allows(NewKeys::Always));
        let made = room.made();
        room.made_one();
        room.looked(8, false, made);
        assert!(room.allows(NewKeys::OfPolicies), "8 and one that was made after the question");
        room.memory_ran_out();
        assert!(!room.allows(NewKeys::OfPolicies));
        room.looked(8, false, 0);
        assert!(room.allows(NewKeys::OfPolicies), "a check found memory");
    }

    #[test]
    fn a_server_that_cannot_be_checked_has_no_bound_and_its_shortage_of_memory_ends() {
        let room = Room::new(Some(10));
        room.looked(10, true, 0);
        assert!(!room.allows(NewKeys::OfPolicies));
        room.not_looked();
        (0..100).for_each(|_| room.made_one());
        assert!(room.allows(NewKeys::OfPolicies) && room.allows(NewKeys::OfCallers));
        room.memory_ran_out();
        assert!(!room.allows(NewKeys::OfPolicies));
        let until = room.refuses_until.load(Relaxed);
        assert!((1..=stopwatch::micros() + REFUSAL).contains(&until), "no longer than a second: {until}");
        room.refuses_until.store(stopwatch::micros(), Relaxed);
        assert!(room.allows(NewKeys::OfPolicies), "that time has passed");
        room.looked(10, false, room.made());
        assert!(!room.allows(NewKeys::OfPolicies), "it can be checked again");
    }
}
