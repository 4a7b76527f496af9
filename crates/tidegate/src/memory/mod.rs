//! [`MemoryStore`]: state in the memory of this process.
//!
//! Keys are spread over shards ([`shard`]), each behind one lock. A key's state is found by a fingerprint ([`id`]) in an
//! open-addressed table ([`table`]) of 32-byte slots ([`slot`]). States that do not fit into a slot are large states
//! ([`large_states`]). All shards share one bound on keys and bytes ([`bounds`]). Limits supplied by callers have separate
//! shards, and a bound of their own within that bound, so that they do not affect the states of other policies. The store
//! has no thread: expired states are evicted as new keys arrive.

mod bounds;
mod decide_all;
mod id;
mod large_states;
mod layouts;
mod overrides;
mod reservations;
mod shard;
mod slot;
mod table;

use std::{fmt, sync::Arc};

pub use bounds::{AtCapacity, AtCapacityError};
use bounds::{Bounds, Maxima};
use id::Id;
pub use id::{Fingerprints, nonce};
use shard::{KeyRequest, Shard, overflow_bits};

use crate::{
    cost::Cost,
    decision::{Decision, Refund},
    failure::Share,
    inspect::Inspection,
    key::Key,
    op::Op,
    policy::Policy,
    sync::Mutex,
    timestamp::Timestamp,
};

/// A store in the memory of this process, with maximum numbers of keys and bytes.
///
/// Every operation takes the time as an argument, so that traces can be replayed. A [`Limiter`](crate::Limiter) reads it
/// from a clock.
///
/// ```
/// use tidegate::{Cost, Key, MemoryStore, Op, Policy, Timestamp};
///
/// let store = MemoryStore::builder().max_keys(10_000).build()?;
/// let policy = Policy::new("api", ["2/1s".parse()?])?;
/// let key = Key::new("alice")?;
/// let now = Timestamp::from_micros(1_745_000_000_000_000);
/// let decision = store.decide(Op::Check, &policy, &key, Cost::ONE, now);
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemoryStore {
    fingerprints: Fingerprints,
    /// Bounds of the whole store.
    bounds: Arc<Bounds>,
    /// Bounds for limits supplied by callers, which are part of the bounds of the whole store.
    caller_bounds: Arc<Bounds>,
    max_keys: usize,
    max_bytes: usize,
    /// Shards for policies of the program alternate with shards for limits supplied by callers.
    shards: Box<[BoundedShard]>,
}

/// A shard and its bounds, which share no cache line with another shard.
#[repr(align(128))]
struct BoundedShard {
    shard: Mutex<Shard>,
    bounds: Arc<Bounds>,
}

/// The contents and the counters of a [`MemoryStore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Keys with their own state, without those that have an override.
    pub keys: usize,
    /// Bytes allocated for states, including tables.
    pub bytes: usize,
    /// Keys among [`keys`](Stats::keys) with limits supplied by callers.
    pub caller_keys: usize,
    /// Bytes among [`bytes`](Stats::bytes) for limits supplied by callers.
    pub caller_bytes: usize,
    /// Admitted requests, including denials in shadow mode.
    pub allowed: u64,
    /// Denied requests.
    pub denied: u64,
    /// Expired states that were evicted.
    pub evicted: u64,
    /// Requests for new keys that the store had no room for, whether they were admitted or denied.
    pub refused: u64,
    /// Requests among [`refused`](Stats::refused) with limits supplied by callers.
    pub caller_refused: u64,
    /// Requests among [`caller_refused`](Stats::caller_refused) that needed more than the maximum number of layouts
    /// (combinations of an algorithm and windows).
    pub caller_refused_layouts: u64,
    /// Charges that a log had no room for and joined with the previous charge.
    pub joined: u64,
    /// Stored overrides, including those that have ended but are not deleted yet.
    pub overrides: usize,
}

impl MemoryStore {
    /// A builder for a store of at most a million keys and 512 MiB by default.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }

    /// Decides one request in one atomic step.
    #[inline]
    pub fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost, now: Timestamp) -> Decision {
        let request = self.request(policy, key, cost.get(), now);
        let BoundedShard { shard, bounds } = self.shard(request.id);
        let decision = shard.lock().decide(&request, op, bounds);
        if decision.degraded {
            self.sweep_other_half(request.id, now, op);
        }
        decision
    }

    /// Evicts expired states of the other half of the shards. They take room, too, and there may be no requests that
    /// would evict them.
    #[cold]
    fn sweep_other_half(&self, id: Id, now: Timestamp, op: Op) {
        let BoundedShard { shard, bounds } = &self.shards[self.shard_number(id) ^ 1];
        shard.lock().sweep_for_room(now.as_micros().cast_signed(), op, bounds);
    }

    /// Gives units back to the time of their charge, as far as they are still in use.
    pub fn refund(&self, policy: &Policy, key: &Key<'_>, cost: Cost, charged_at: Timestamp, now: Timestamp) -> Refund {
        let request = self.request(policy, key, cost.get(), now);
        let BoundedShard { shard, bounds } = self.shard(request.id);
        shard.lock().refund(&request, charged_at.as_micros().cast_signed(), bounds)
    }

    /// Deletes the state of a key under a policy, but not its override. Returns whether a state existed.
    pub fn reset(&self, policy: &Policy, key: &Key<'_>) -> bool {
        let id = self.fingerprints.id(policy, key);
        let BoundedShard { shard, bounds } = self.shard(id);
        shard.lock().reset(id, bounds)
    }

    /// Shows the state of a key under a policy; `None` if it has no state.
    pub fn inspect(&self, policy: &Policy, key: &Key<'_>, now: Timestamp) -> Option<Inspection> {
        let request = self.request(policy, key, Cost::ONE.get(), now);
        let BoundedShard { shard, bounds } = self.shard(request.id);
        shard.lock().inspect(&request, bounds)
    }

    /// Returns the contents and the counters of the store. It reads the shards one after another, so under load the
    /// figures are not from the same moment.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            keys: self.bounds.keys(),
            bytes: self.bounds.bytes() + size_of_val(&*self.shards),
            caller_keys: self.caller_bounds.keys(),
            caller_bytes: self.caller_bounds.bytes(),
            overrides: self.bounds.overrides(),
            ..Stats::default()
        };
        for BoundedShard { shard, bounds } in &self.shards {
            let counters = shard.lock().counters();
            stats.allowed += counters.allowed;
            stats.denied += counters.denied;
            stats.evicted += counters.evicted;
            stats.refused += counters.refused;
            stats.joined += counters.joined;
            if bounds.are_for_callers() {
                stats.caller_refused += counters.refused;
                stats.caller_refused_layouts += counters.refused_layouts;
            }
        }
        stats
    }

    /// Maximum number of keys with their own state.
    pub fn max_keys(&self) -> usize {
        self.max_keys
    }

    /// Maximum number of bytes for states.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    #[inline]
    fn request<'a>(&self, policy: &'a Policy, key: &Key<'_>, cost: u64, now: Timestamp) -> KeyRequest<'a> {
        KeyRequest { policy, id: self.fingerprints.id(policy, key), cost, now: now.as_micros().cast_signed() }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits are used")]
    fn shard_number(&self, id: Id) -> usize {
        // The number of shards is a power of two.
        id.order as usize & (self.shards.len() - 1)
    }

    #[inline]
    fn shard(&self, id: Id) -> &BoundedShard {
        &self.shards[self.shard_number(id)]
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("bounds", &self.bounds)
            .field("shards", &self.shards.len())
            .finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStoreBuilder::default().assemble()
    }
}

/// Builds a [`MemoryStore`].
#[derive(Debug, Clone)]
pub struct MemoryStoreBuilder {
    max_keys: usize,
    max_bytes: usize,
    max_overrides: usize,
    at_capacity: AtCapacity,
    caller_share: Option<Share>,
    shards: Option<usize>,
    evicts: bool,
}

const MIN_BYTES: usize = 64 * 1024;

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        Self {
            max_keys: 1_000_000,
            max_bytes: 512 * 1024 * 1024,
            max_overrides: 10_000,
            at_capacity: AtCapacity::default(),
            caller_share: None,
            shards: None,
            evicts: true,
        }
    }
}

impl MemoryStoreBuilder {
    /// Maximum number of keys with their own state; a million by default.
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// Maximum number of bytes for states, at least 64 KiB; 512 MiB by default.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Maximum number of overrides; 10,000 by default. Keys with an override do not count towards `max_keys`, so there is
    /// always room for them. Their bytes are counted, but never the reason for a refusal.
    #[must_use]
    pub fn max_overrides(mut self, max_overrides: usize) -> Self {
        self.max_overrides = max_overrides;
        self
    }

    /// The treatment of a new key for which there is no room. A known key is never refused: a log that cannot grow joins
    /// charges, which is stricter, never looser.
    #[must_use]
    pub fn at_capacity(mut self, at_capacity: AtCapacity) -> Self {
        self.at_capacity = at_capacity;
        self
    }

    /// The maximum share of keys and bytes for limits supplied by callers ([`Policy::unnamed`],
    /// [`Policy::supplied_by_caller`]); one half by default. Other policies can use all room that callers do not use.
    #[must_use]
    pub fn caller_share(mut self, share: Share) -> Self {
        self.caller_share = Some(share);
        self
    }

    /// The number of shards, each with its own lock, rounded up to a power of two of at most 1024. It depends on
    /// `max_keys` by default. One shard is best for a store that a single thread uses.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards.clamp(1, 1024));
        self
    }

    /// Never evicts a state, even if it has expired. Use it for replays: a request that was logged late then finds the
    /// same state as at its own time.
    #[must_use]
    pub fn keep_expired(mut self) -> Self {
        self.evicts = false;
        self
    }

    /// Builds the store.
    ///
    /// # Errors
    /// If `max_keys` is 0 or `max_bytes` below 64 KiB.
    pub fn build(self) -> Result<MemoryStore, MemoryStoreError> {
        if self.max_keys == 0 {
            return Err(MemoryStoreError::NoKeys);
        }
        if self.max_bytes < MIN_BYTES {
            return Err(MemoryStoreError::FewBytes { max_bytes: self.max_bytes });
        }
        Ok(self.assemble())
    }

    fn assemble(self) -> MemoryStore {
        // With so many shards, the table of one grows in less than a millisecond. More shards would fill the cache.
        let default = (self.max_keys / 16_384).clamp(16, 1024);
        let shards = self.shards.unwrap_or(default).next_power_of_two();
        let overflow_bits = overflow_bits(self.max_keys, shards);
        // The shards themselves take memory, too.
        let bytes = self.max_bytes.saturating_sub(2 * shards * size_of::<BoundedShard>()).max(self.max_bytes / 2);
        let maxima = Maxima { keys: self.max_keys, bytes, overrides: self.max_overrides, overflow_bits };
        let share = |whole| self.caller_share.unwrap_or(Share::HALF).of_size(whole);
        let for_callers = Maxima { keys: share(self.max_keys), bytes: share(bytes), overrides: 0, overflow_bits };
        let bounds = Arc::new(Bounds::new(maxima, self.at_capacity, self.evicts));
        let caller_bounds = Arc::new(Bounds::for_callers(&bounds, for_callers));
        let pair = |_| [&bounds, &caller_bounds].map(|bounds| BoundedShard::new(Arc::clone(bounds)));
        MemoryStore {
            fingerprints: Fingerprints::random(),
            max_keys: self.max_keys,
            max_bytes: self.max_bytes,
            shards: (0..shards).flat_map(pair).collect(),
            bounds,
            caller_bounds,
        }
    }
}

impl BoundedShard {
    fn new(bounds: Arc<Bounds>) -> Self {
        Self { shard: Mutex::new(Shard::default()), bounds }
    }
}

/// The reason why a [`MemoryStore`] could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryStoreError {
    /// The maximum number of keys is 0.
    #[error("a store for 0 keys cannot limit any key: use a max_keys of at least 1")]
    NoKeys,
    /// The maximum number of bytes is too small.
    #[error("{max_bytes} bytes are too few for a store: use a max_bytes of at least 65536")]
    FewBytes {
        /// The given number of bytes.
        max_bytes: usize,
    },
}
