//! [`Bounds`]: how much all shards together hold, and may hold.

use std::sync::Arc;

use super::attic::Attic;
use crate::sync::{AtomicUsize, Ordering};

/// What a key gets that there is no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AtCapacity {
    /// Shares its limits with other keys without room: they are limited more, never less. Under limits that callers
    /// bring, the key is denied if there are too many such states.
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
    /// Maximum number of bytes, those of overflow states included.
    max_bytes_with_overflow: usize,
    /// How many bits of a key's id select its overflow state among those of its policy in its shard.
    overflow_bits: u32,
    max_overrides: usize,
    keys: AtomicUsize,
    bytes: AtomicUsize,
    overrides: AtomicUsize,
    /// Number of overflow states: states that keys without room share.
    overflow: AtomicUsize,
    /// The bounds of the whole store, if these are the bounds for limits that callers bring.
    whole: Option<Arc<Bounds>>,
}

/// How much a store may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    pub(super) keys: usize,
    pub(super) bytes: usize,
    pub(super) overrides: usize,
    pub(super) overflow_bits: u32,
}

impl Bounds {
    pub(super) fn new(most: Most, at_capacity: AtCapacity, forgets: bool) -> Self {
        Self {
            at_capacity,
            forgets,
            max_keys: most.keys,
            // A sixteenth is reserved for overflow states, and for the growth of logs before it is counted. Half of
            // that is reserved for the few overflow states that every policy may have.
            max_bytes: most.bytes - most.bytes / 16,
            max_bytes_with_overflow: most.bytes - most.bytes / 32,
            overflow_bits: most.overflow_bits,
            max_overrides: most.overrides,
            keys: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            overrides: AtomicUsize::new(0),
            overflow: AtomicUsize::new(0),
            whole: None,
        }
    }

    /// The bounds for limits that callers bring: a share of the keys and bytes of `whole`, which counts them, too.
    pub(super) fn of_callers(whole: &Arc<Self>, most: Most) -> Self {
        Self { whole: Some(Arc::clone(whole)), ..Self::new(most, whole.at_capacity, whole.forgets) }
    }

    /// Whether these are the bounds for limits that callers bring.
    pub(super) fn are_of_callers(&self) -> bool {
        self.whole.is_some()
    }

    /// WindowCounts one key more, if it may be.
    pub(super) fn take_key(&self) -> bool {
        let next = |keys| (keys < self.max_keys).then_some(keys + 1);
        let taken = self.keys.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok();
        if taken && self.whole.as_ref().is_some_and(|whole| !whole.take_key()) {
            self.keys.fetch_sub(1, Ordering::AcqRel);
            return false;
        }
        taken
    }

    /// Whether one key more may be counted.
    pub(super) fn has_keys(&self) -> bool {
        let has = self.keys.load(Ordering::Acquire) < self.max_keys;
        has && self.whole.as_ref().is_none_or(|whole| whole.has_keys())
    }

    pub(super) fn give_back_key(&self) {
        self.keys.fetch_sub(1, Ordering::AcqRel);
        if let Some(whole) = &self.whole {
            whole.give_back_key();
        }
    }

    /// WindowCounts a key whose override has ended, even beyond the bound: the store keeps the state of such a key.
    pub(super) fn count_key(&self) {
        self.keys.fetch_add(1, Ordering::AcqRel);
        if let Some(whole) = &self.whole {
            whole.count_key();
        }
    }

    /// WindowCounts one override more, if it may be.
    pub(super) fn take_override(&self) -> bool {
        let next = |overrides| (overrides < self.max_overrides).then_some(overrides + 1);
        self.overrides.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    pub(super) fn give_back_override(&self) {
        self.overrides.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether `bytes` more may be held.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let fits = self.bytes.load(Ordering::Acquire).saturating_add(bytes) <= self.max_bytes;
        fits && self.whole.as_ref().is_none_or(|whole| whole.has_room(bytes))
    }

    /// Whether `bytes` more may be held for overflow states, given that each of them may outgrow its slot.
    pub(super) fn has_overflow_room(&self, bytes: usize) -> bool {
        let growth = self.overflow.load(Ordering::Acquire).saturating_mul(Attic::BYTES_EACH);
        let held = self.bytes.load(Ordering::Acquire).saturating_add(growth);
        let fits = held.saturating_add(bytes) <= self.max_bytes_with_overflow;
        fits && self.whole.as_ref().is_none_or(|whole| whole.has_overflow_room(bytes))
    }

    /// WindowCounts one more overflow state.
    pub(super) fn count_overflow(&self) {
        self.overflow.fetch_add(1, Ordering::AcqRel);
        if let Some(whole) = &self.whole {
            whole.count_overflow();
        }
    }

    pub(super) fn give_back_overflow(&self) {
        self.overflow.fetch_sub(1, Ordering::AcqRel);
        if let Some(whole) = &self.whole {
            whole.give_back_overflow();
        }
    }

    pub(super) fn overflow_bits(&self) -> u32 {
        self.overflow_bits
    }

    /// Notes that what took `before` bytes now takes `after`.
    #[inline]
    pub(super) fn note(&self, before: usize, after: usize) {
        if after > before {
            self.bytes.fetch_add(after - before, Ordering::AcqRel);
        } else if before > after {
            self.bytes.fetch_sub(before - after, Ordering::AcqRel);
        }
        if let Some(whole) = &self.whole {
            whole.note(before, after);
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
