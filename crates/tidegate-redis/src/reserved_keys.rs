//! [`ReservedKeys`]: the keys that had the form of keys with reservations when Redis last answered for them.
//!
//! Most keys are strings, and the script reads strings first. A key with holds is a hash, so the script would read it twice. A
//! request for a key in this table says so, and the script reads the hash first. A wrong entry costs one read more and changes no
//! answer.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// Maximum number of keys in the table. A power of two.
const SLOTS: usize = 4096;

/// A table of fixed size. A key replaces another one in the same slot.
#[derive(Debug)]
pub(crate) struct ReservedKeys {
    hasher: RandomState,
    /// A part of the hash of each key; 0 if there is none.
    tags: Box<[AtomicU32]>,
}

/// A keyed hash of the name of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyHash(u64);

impl ReservedKeys {
    pub(crate) fn new() -> Self {
        Self { hasher: RandomState::new(), tags: (0..SLOTS).map(|_| AtomicU32::new(0)).collect() }
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(self.hasher.hash_one(key))
    }

    /// Whether a key had that form when Redis last answered for it.
    #[inline]
    pub(crate) fn has(&self, key: KeyHash) -> bool {
        self.slot(key).load(Relaxed) == key.tag()
    }

    /// Records the form of a key.
    #[inline]
    pub(crate) fn note(&self, key: KeyHash, is_reserved: bool) {
        if is_reserved {
            self.slot(key).store(key.tag(), Relaxed);
        } else if self.has(key) {
            self.slot(key).store(0, Relaxed);
        }
    }

    fn slot(&self, key: KeyHash) -> &AtomicU32 {
        &self.tags[usize::try_from(key.0 % SLOTS as u64).unwrap_or(0)]
    }
}

impl KeyHash {
    /// The half of the hash that does not select the slot, never 0.
    fn tag(self) -> u32 {
        (self.0 >> 32) as u32 | 1
    }
}

#[cfg(test)]
mod tests {
    use super::{ReservedKeys, SLOTS};

    #[test]
    fn a_key_is_known_until_redis_answers_that_its_form_has_changed() {
        let keys = ReservedKeys::new();
        let (alice, bob) = (keys.hash(b"alice"), keys.hash(b"bob"));
        assert!(!keys.has(alice));
        keys.note(alice, true);
        assert!(keys.has(alice) && !keys.has(bob));
        keys.note(bob, false);
        assert!(keys.has(alice), "another key changes nothing");
        keys.note(alice, false);
        assert!(!keys.has(alice));
    }

    #[test]
    fn the_table_does_not_grow() {
        let keys = ReservedKeys::new();
        for number in 0..4 * SLOTS {
            keys.note(keys.hash(&number.to_be_bytes()), true);
        }
        assert_eq!(keys.tags.len(), SLOTS);
        assert!(keys.has(keys.hash(&(4 * SLOTS - 1).to_be_bytes())), "the newest key is known");
    }
}
