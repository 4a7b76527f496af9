//! [`MemoryStore`]: state in this process's memory.
//!
//! Keys are spread over shards ([`shard`]), each behind one lock. A key's state is found by a fingerprint ([`id`]) in
//! an open-addressed table ([`table`]) of 32-byte slots ([`slot`]); what doesn't fit there is in the shard's attic
//! ([`attic`]). All shards share one bound on keys and bytes ([`bounds`]). Limits that callers bring have separate
//! shards, and a bound of their own within that bound, so that they do not affect the states of other policies. The
//! store has no thread: expired states are evicted as new keys arrive.

mod attic;
mod bounds;
mod id;
mod overrides;
pub(crate) mod several;
mod shapes;
mod shard;
mod slot;
mod table;

use std::{fmt, sync::Arc};

pub use bounds::AtCapacity;
use bounds::{Bounds, Most};
use id::{Id, Secret};
pub use several::{Spend, SpendError};
use shard::{Part, Shard, overflow_bits};

use crate::{
    cost::Cost,
    decision::{Decision, Refund},
    failure::Share,
    inspect::Inspection,
    key::Key,
    policy::Policy,
    sync::Mutex,
    timestamp::Timestamp,
};

/// What to do with a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Spend it if it fits.
    Check,
    /// Answer as a check would, and spend nothing.
    Peek,
    /// Spend it whether it fits or not.
    Charge,
}

/// Keeps state in memory, bounded in keys and bytes.
///
/// Every operation takes the time, so that a trace can be replayed; a [`Limiter`](crate::Limiter) reads it from a clock.
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
    secret: Secret,
    /// Bounds of the whole store.
    bounds: Arc<Bounds>,
    /// Bounds for limits that callers bring, which are part of the bounds of the whole store.
    caller_bounds: Arc<Bounds>,
    max_keys: usize,
    max_bytes: usize,
    /// Shards for policies of the program alternate with shards for limits that callers bring.
    shards: Box<[Bounded]>,
}

/// A shard and its bounds. It shares no cache line with another shard.
#[repr(align(128))]
struct Bounded {
    shard: Mutex<Shard>,
    bounds: Arc<Bounds>,
}

/// What a store holds and has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Keys that have a state of their own, those with an override aside.
    pub keys: usize,
    /// Bytes held for states, tables included.
    pub bytes: usize,
    /// Keys among [`keys`](Stats::keys) whose limits callers brought.
    pub caller_keys: usize,
    /// Bytes among [`bytes`](Stats::bytes) that are held for limits that callers brought.
    pub caller_bytes: usize,
    /// Requests let through, shadowed denials among them.
    pub allowed: u64,
    /// Requests denied.
    pub denied: u64,
    /// States forgotten because their time had passed.
    pub evicted: u64,
    /// Requests for keys without room, whether they were admitted or denied at capacity.
    pub refused: u64,
    /// Requests among [`refused`](Stats::refused) whose limits callers brought.
    pub caller_refused: u64,
    /// Requests among [`caller_refused`](Stats::caller_refused) that would have needed one shape (algorithm and
    /// windows) more than there may be.
    pub caller_refused_shapes: u64,
    /// Charges that a log had no room for and joined with the one before.
    pub joined: u64,
    /// Overrides that are held, those among them whose end has not been noticed yet.
    pub overrides: usize,
}

impl MemoryStore {
    /// A store to be given its bounds: a million keys and 512 MiB unless said otherwise.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }

    /// Decides one request in one atomic step.
    #[inline]
    pub fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost, now: Timestamp) -> Decision {
        let part = self.part(policy, key, cost.get(), now);
        let Bounded { shard, bounds } = self.shard(part.id);
        let decision = shard.lock().decide(&part, op, bounds);
        if decision.degraded {
            self.sweep_other_half(part.id, now, op);
        }
        decision
    }

    /// Evicts expired states of the other half of the shards. They take room, too, and there may be no further requests
    /// that would evict them.
    #[cold]
    fn sweep_other_half(&self, id: Id, now: Timestamp, op: Op) {
        let Bounded { shard, bounds } = &self.shards[self.shard_number(id) ^ 1];
        shard.lock().sweep_for_room(now.as_micros().cast_signed(), op, bounds);
    }

    /// Gives units back to the moment they were charged at, as far as they are still in use there.
    pub fn refund(&self, policy: &Policy, key: &Key<'_>, cost: Cost, charged_at: Timestamp, now: Timestamp) -> Refund {
        let part = self.part(policy, key, cost.get(), now);
        let Bounded { shard, bounds } = self.shard(part.id);
        shard.lock().refund(&part, charged_at.as_micros().cast_signed(), bounds)
    }

    /// Forgets a key's state under a policy, not its override; whether there was anything to forget.
    pub fn reset(&self, policy: &Policy, key: &Key<'_>) -> bool {
        let id = self.secret.id(policy, key);
        let Bounded { shard, bounds } = self.shard(id);
        shard.lock().reset(id, bounds)
    }

    /// Shows the state of a key under a policy, if it has one.
    pub fn inspect(&self, policy: &Policy, key: &Key<'_>, now: Timestamp) -> Option<Inspection> {
        let part = self.part(policy, key, Cost::ONE.get(), now);
        let Bounded { shard, bounds } = self.shard(part.id);
        shard.lock().inspect(&part, bounds)
    }

    /// What the store holds and has done so far. Shards are asked in turn, so under load the figures are not of one moment.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            keys: self.bounds.keys(),
            bytes: self.bounds.bytes() + size_of_val(&*self.shards),
            caller_keys: self.caller_bounds.keys(),
            caller_bytes: self.caller_bounds.bytes(),
            overrides: self.bounds.overrides(),
            ..Stats::default()
        };
        for Bounded { shard, bounds } in &self.shards {
            let tally = shard.lock().tally();
            stats.allowed += tally.allowed;
            stats.denied += tally.denied;
            stats.evicted += tally.evicted;
            stats.refused += tally.refused;
            stats.joined += tally.joined;
            if bounds.are_of_callers() {
                stats.caller_refused += tally.refused;
                stats.caller_refused_shapes += tally.refused_shapes;
            }
        }
        stats
    }

    /// The most keys that have a state of their own at once.
    pub fn max_keys(&self) -> usize {
        self.max_keys
    }

    /// The most bytes that are held for states.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    #[inline]
    fn part<'a>(&self, policy: &'a Policy, key: &Key<'_>, cost: u64, now: Timestamp) -> Part<'a> {
        Part { policy, id: self.secret.id(policy, key), cost, now: now.as_micros().cast_signed() }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits are wanted")]
    fn shard_number(&self, id: Id) -> usize {
        // There is a power of two of them.
        id.order as usize & (self.shards.len() - 1)
    }

    #[inline]
    fn shard(&self, id: Id) -> &Bounded {
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

/// The bounds of a [`MemoryStore`] to be.
#[derive(Debug, Clone)]
pub struct MemoryStoreBuilder {
    max_keys: usize,
    max_bytes: usize,
    max_overrides: usize,
    at_capacity: AtCapacity,
    caller_share: Option<Share>,
    shards: Option<usize>,
    forgets: bool,
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
            forgets: true,
        }
    }
}

impl MemoryStoreBuilder {
    /// The most keys that have a state of their own at once.
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// The most bytes to hold for states, at least 64 KiB.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// The most overrides at once, 10,000 if unsaid. Keys that have one come on top of `max_keys`, so that there is always room
    /// for them; what they take is counted in bytes, but never refused for it.
    #[must_use]
    pub fn max_overrides(mut self, max_overrides: usize) -> Self {
        self.max_overrides = max_overrides;
        self
    }

    /// What a new key gets that there is no room for. A known key is never turned away: a log that can't grow joins
    /// charges, which is stricter, never looser.
    #[must_use]
    pub fn at_capacity(mut self, at_capacity: AtCapacity) -> Self {
        self.at_capacity = at_capacity;
        self
    }

    /// The share of keys and bytes that may be held for limits that callers bring ([`Policy::unnamed`],
    /// [`Policy::brought_by_caller`]); one half by default. Other policies may use all room that callers do not
    /// use.
    #[must_use]
    pub fn caller_share(mut self, share: Share) -> Self {
        self.caller_share = Some(share);
        self
    }

    /// How many parts with a lock of their own the keys are spread over, rounded up to a power of two of at most 1024; by `max_keys`
    /// if unsaid. One is best for a store that a single thread asks.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards.clamp(1, 1024));
        self
    }

    /// Keeps the states of all keys, also of those whose time has passed. For replays: a request that is logged late then finds what it
    /// would have found in time, whatever others have asked for meanwhile.
    #[must_use]
    pub fn forget_nothing(mut self) -> Self {
        self.forgets = false;
        self
    }

    /// Makes the store.
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
        // So many that a shard's table grows in well under a millisecond, so few that they don't fill the cache.
        let unsaid = (self.max_keys / 16_384).clamp(16, 1024);
        let shards = self.shards.unwrap_or(unsaid).next_power_of_two();
        let overflow_bits = overflow_bits(self.max_keys, shards);
        // The memory of the shards themselves is counted, too.
        let bytes = self.max_bytes.saturating_sub(2 * shards * size_of::<Bounded>()).max(self.max_bytes / 2);
        let most = Most { keys: self.max_keys, bytes, overrides: self.max_overrides, overflow_bits };
        let part = |of| self.caller_share.unwrap_or(Share::HALF).of_size(of);
        let of_callers = Most { keys: part(self.max_keys), bytes: part(bytes), overrides: 0, overflow_bits };
        let bounds = Arc::new(Bounds::new(most, self.at_capacity, self.forgets));
        let caller_bounds = Arc::new(Bounds::of_callers(&bounds, of_callers));
        let pair = |_| [&bounds, &caller_bounds].map(|bounds| Bounded::new(Arc::clone(bounds)));
        MemoryStore {
            secret: Secret::random(),
            max_keys: self.max_keys,
            max_bytes: self.max_bytes,
            shards: (0..shards).flat_map(pair).collect(),
            bounds,
            caller_bounds,
        }
    }
}

impl Bounded {
    fn new(bounds: Arc<Bounds>) -> Self {
        Self { shard: Mutex::new(Shard::default()), bounds }
    }
}

/// Why a [`MemoryStore`] could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryStoreError {
    /// It could hold no key.
    #[error("a store for 0 keys would limit nobody: use max_keys of at least 1")]
    NoKeys,
    /// It could hold next to nothing.
    #[error("{max_bytes} bytes are too few for a store: use max_bytes of at least 65536")]
    FewBytes {
        /// What was asked for.
        max_bytes: usize,
    },
}
