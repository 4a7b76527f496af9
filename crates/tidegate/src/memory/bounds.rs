//! [`Bounds`]: the numbers of keys and bytes of all shards together, and their maxima.

use std::{fmt, str::FromStr, sync::Arc};

use super::large_states::LargeStates;
use crate::sync::{AtomicUsize, Ordering};

/// The treatment of a new key for which a store has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum AtCapacity {
    /// The key shares its limits with other keys without room: they are limited more, never less. Under limits supplied
    /// by callers, the key is denied if there are too many such states.
    #[default]
    Shared,
    /// The key is denied.
    Deny,
    /// The key is admitted and not counted.
    Admit,
}

impl AtCapacity {
    /// The name in every configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Deny => "deny",
            Self::Admit => "admit",
        }
    }
}

impl fmt::Display for AtCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AtCapacity {
    type Err = AtCapacityError;

    fn from_str(text: &str) -> Result<Self, AtCapacityError> {
        let choices = [Self::Shared, Self::Deny, Self::Admit];
        let found = choices.into_iter().find(|choice| choice.as_str() == text);
        found.ok_or_else(|| AtCapacityError { text: text.to_owned() })
    }
}

/// The text is not an [`AtCapacity`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a treatment of new keys at capacity: use shared, deny or admit")]
#[non_exhaustive]
pub struct AtCapacityError {
    /// The given text.
    pub text: String,
}

/// The numbers of keys and bytes, and their maxima.
#[derive(Debug)]
pub(super) struct Bounds {
    pub(super) at_capacity: AtCapacity,
    /// Whether expired states are evicted.
    pub(super) evicts: bool,
    max_keys: usize,
    max_bytes: usize,
    /// Maximum number of bytes, including those of overflow states.
    max_bytes_with_overflow: usize,
    /// The number of bits of a key's id that select one of the overflow states of its policy in its shard.
    overflow_bits: u32,
    max_overrides: usize,
    keys: AtomicUsize,
    bytes: AtomicUsize,
    overrides: AtomicUsize,
    /// Number of overflow states: states that keys without room share.
    overflow: AtomicUsize,
    /// The bounds of the whole store, if these are the bounds for limits supplied by callers.
    whole: Option<Arc<Bounds>>,
}

/// The maxima of a store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Maxima {
    pub(super) keys: usize,
    pub(super) bytes: usize,
    pub(super) overrides: usize,
    pub(super) overflow_bits: u32,
}

impl Bounds {
    pub(super) fn new(max: Maxima, at_capacity: AtCapacity, evicts: bool) -> Self {
        Self {
            at_capacity,
            evicts,
            max_keys: max.keys,
            // A sixteenth is reserved for overflow states, and for the growth of logs before it is counted. Half of
            // that is reserved for the few overflow states that every policy may have.
            max_bytes: max.bytes - max.bytes / 16,
            max_bytes_with_overflow: max.bytes - max.bytes / 32,
            overflow_bits: max.overflow_bits,
            max_overrides: max.overrides,
            keys: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            overrides: AtomicUsize::new(0),
            overflow: AtomicUsize::new(0),
            whole: None,
        }
    }

    /// The bounds for limits supplied by callers: a share of the keys and bytes of `whole`, which counts them, too.
    pub(super) fn for_callers(whole: &Arc<Self>, max: Maxima) -> Self {
        Self { whole: Some(Arc::clone(whole)), ..Self::new(max, whole.at_capacity, whole.evicts) }
    }

    /// Whether these are the bounds for limits supplied by callers.
    pub(super) fn are_for_callers(&self) -> bool {
        self.whole.is_some()
    }

    /// Counts one more key. Returns `false` if the maximum is reached.
    pub(super) fn take_key(&self) -> bool {
        let next = |keys| (keys < self.max_keys).then_some(keys + 1);
        let taken = self.keys.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok();
        if taken && self.whole.as_ref().is_some_and(|whole| !whole.take_key()) {
            self.keys.fetch_sub(1, Ordering::AcqRel);
            return false;
        }
        taken
    }

    /// Whether one more key can be counted.
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

    /// Counts a key whose override has ended, even beyond the maximum: the store keeps the state of such a key.
    pub(super) fn count_key(&self) {
        self.keys.fetch_add(1, Ordering::AcqRel);
        if let Some(whole) = &self.whole {
            whole.count_key();
        }
    }

    /// Counts one more override. Returns `false` if the maximum is reached.
    pub(super) fn take_override(&self) -> bool {
        let next = |overrides| (overrides < self.max_overrides).then_some(overrides + 1);
        self.overrides.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    pub(super) fn give_back_override(&self) {
        self.overrides.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether `bytes` more can be allocated.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let fits = self.bytes.load(Ordering::Acquire).saturating_add(bytes) <= self.max_bytes;
        fits && self.whole.as_ref().is_none_or(|whole| whole.has_room(bytes))
    }

    /// Whether `bytes` more can be allocated for overflow states, given that each of them may outgrow its slot.
    pub(super) fn has_overflow_room(&self, bytes: usize) -> bool {
        let growth = self.overflow.load(Ordering::Acquire).saturating_mul(LargeStates::CELL_BYTES);
        let allocated = self.bytes.load(Ordering::Acquire).saturating_add(growth);
        let fits = allocated.saturating_add(bytes) <= self.max_bytes_with_overflow;
        fits && self.whole.as_ref().is_none_or(|whole| whole.has_overflow_room(bytes))
    }

    /// Counts one more overflow state.
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

    /// Counts an allocation that grew or shrank from `before` bytes to `after`.
    #[inline]
    pub(super) fn count_bytes(&self, before: usize, after: usize) {
        if after == before {
            return;
        }
        if after > before {
            self.bytes.fetch_add(after - before, Ordering::AcqRel);
        } else {
            self.bytes.fetch_sub(before - after, Ordering::AcqRel);
        }
        if let Some(whole) = &self.whole {
            whole.count_bytes(before, after);
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
