//! [`Bounds`]: how much all shards together hold, and may hold.

use crate::sync::{AtomicUsize, Ordering};

/// What a key gets that there is no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AtCapacity {
    /// Shares its limits with others that there was no room for: they are limited more, never less.
    #[default]
    Shared,
    /// Is denied.
    Deny,
    /// Is let through, uncounted.
    Admit,
}

/// Keys and bytes, held and allowed.
#[derive(Debug)]
pub(super) struct Bounds {
    pub(super) at_capacity: AtCapacity,
    /// Whether states whose time has passed are cleared away.
    pub(super) forgets: bool,
    max_keys: usize,
    max_bytes: usize,
    max_overrides: usize,
    keys: AtomicUsize,
    bytes: AtomicUsize,
    overrides: AtomicUsize,
}

/// How much a store may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    pub(super) keys: usize,
    pub(super) bytes: usize,
    pub(super) overrides: usize,
}

impl Bounds {
    pub(super) fn new(most: Most, at_capacity: AtCapacity, forgets: bool) -> Self {
        Self {
            at_capacity,
            forgets,
            max_keys: most.keys,
            // A sixteenth is for keys that share slots, and for what a log takes before it is noticed.
            max_bytes: most.bytes - most.bytes / 16,
            max_overrides: most.overrides,
            keys: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            overrides: AtomicUsize::new(0),
        }
    }

    /// Counts one key more, if it may be.
    pub(super) fn take_key(&self) -> bool {
        let next = |keys| (keys < self.max_keys).then_some(keys + 1);
        self.keys.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    /// Whether one key more may be counted.
    pub(super) fn has_keys(&self) -> bool {
        self.keys.load(Ordering::Acquire) < self.max_keys
    }

    pub(super) fn give_back_key(&self) {
        self.keys.fetch_sub(1, Ordering::AcqRel);
    }

    /// Counts a key whose override is over, whether it may be or not: its state is not forgotten for want of room.
    pub(super) fn count_key(&self) {
        self.keys.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts one override more, if it may be.
    pub(super) fn take_override(&self) -> bool {
        let next = |overrides| (overrides < self.max_overrides).then_some(overrides + 1);
        self.overrides.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    pub(super) fn give_back_override(&self) {
        self.overrides.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether `bytes` more may be held.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.bytes.load(Ordering::Acquire).saturating_add(bytes) <= self.max_bytes
    }

    /// Notes that what took `before` bytes now takes `after`.
    #[inline]
    pub(super) fn note(&self, before: usize, after: usize) {
        if after > before {
            self.bytes.fetch_add(after - before, Ordering::AcqRel);
        } else if before > after {
            self.bytes.fetch_sub(before - after, Ordering::AcqRel);
        }
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.load(Ordering::Acquire)
    }

    pub(super) fn max_overrides(&self) -> usize {
        self.max_overrides
    }

    pub(super) fn overrides(&self) -> usize {
        self.overrides.load(Ordering::Acquire)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }
}
