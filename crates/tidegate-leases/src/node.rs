//! [`Node`]: the leases of one node, without input and output.
//!
//! It decides what it can, and says what to ask the shared store. The caller sends the requests and reports the answers. So
//! the same code runs in a [`LeasedStore`](crate::LeasedStore), in simulations and in tests, each with its own time.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    hash::{BuildHasherDefault, Hasher},
    sync::atomic::Ordering::Relaxed,
};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidegate::{
    Cost, Decision, Key, Lease, Leased, LeasedKey, Mode, Op, Policy, ReservationError, ReservationId, StoreError,
    Timestamp,
    external_store::{self, Fingerprints},
};

use crate::{
    heat::{Heat, HeatTable},
    key_leases::{DirectAnswer, KeyLeases, LeaseRequest, RefundOf, SettleRequest, number_of, term_of},
    stats::{Counters, Stats, count},
};

/// The number of locks. A power of two.
const SHARDS: usize = 64;
/// Keys in the heat table of a shard. A power of two. All tables take 800 KB. With fewer slots, other keys would replace those
/// that are hot only in a long term.
const HEAT_SLOTS: usize = 1024;
/// Maximum number of keys that a node remembers, by default.
const MAX_KEYS: usize = 16_384;
/// Maximum number of open leases of clients, over all keys: about 4 MB. The shared store grants those beyond it.
const MAX_CLIENT_LEASES: u64 = 65_536;

/// The leases and remembered denials of one node.
///
/// All times are microseconds of a [`TermClock`](crate::TermClock) of the node.
#[derive(Debug)]
pub struct Node {
    fingerprints: Fingerprints,
    shards: Box<[Mutex<Shard>]>,
    max_keys_of_shard: usize,
    counters: Counters,
}

#[derive(Debug)]
struct Shard {
    keys: HashMap<u128, KeyLeases, BuildHasherDefault<FingerprintHasher>>,
    heat: HeatTable,
    /// Set when the node ends. Then no lease is requested any more.
    is_closed: bool,
}

/// What a node knows about a request.
#[derive(Debug)]
#[must_use = "the shared store has to decide if the node did not"]
pub struct LocalAnswer {
    /// The decision; `None` if the shared store has to decide.
    pub decision: Option<Decision>,
    /// Whether to call [`Node::begin_lease`].
    pub wants_lease: bool,
    /// The key, for the node.
    pub fingerprint: u128,
}

/// The answer of a node to a client that asks for a lease.
#[derive(Debug)]
#[must_use = "the shared store has to grant the lease if the node did not"]
pub struct ClientLeaseAnswer {
    /// The lease; `None` if the shared store has to grant it. Then report its answer to [`Node::note_client_lease`].
    pub leased: Option<Leased>,
    /// Whether to call [`Node::begin_lease`].
    pub wants_lease: bool,
    /// The key, for the node.
    pub fingerprint: u128,
}

/// Fingerprints are random already.
#[derive(Debug, Default)]
pub(crate) struct FingerprintHasher(u64);

impl Hasher for FingerprintHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(false, "only fingerprints are hashed, not {bytes:?}");
    }

    fn write_u128(&mut self, fingerprint: u128) {
        // The lowest bit of this half is not random.
        self.0 = (fingerprint >> 65) as u64;
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new(MAX_KEYS)
    }
}

impl Node {
    /// A node that remembers at most `max_keys` keys. All other requests are decided by the shared store.
    pub fn new(max_keys: usize) -> Self {
        let shard = || Shard { keys: HashMap::default(), heat: HeatTable::new(HEAT_SLOTS), is_closed: false };
        Self {
            fingerprints: Fingerprints::random(),
            shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect(),
            max_keys_of_shard: max_keys.div_ceil(SHARDS),
            counters: Counters::default(),
        }
    }

    /// Whether a node decides requests under `policy` by itself. Under a policy in shadow mode it does not: the state in the
    /// store has to be the one that enforcing would hold.
    #[inline]
    pub fn leases(policy: &Policy) -> bool {
        policy.lease().is_some() && policy.mode() == Mode::Enforce
    }

    /// Decides a request if the node can.
    #[inline]
    pub fn decide(&self, now: u64, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> LocalAnswer {
        let fingerprint = self.fingerprints.of(policy, key);
        let mut shard = self.shard(fingerprint).lock();
        let is_closed = shard.is_closed;
        let Some(leases) = shard.keys.get_mut(&fingerprint) else {
            return LocalAnswer { decision: None, wants_lease: false, fingerprint };
        };
        if !external_store::decide_alike(&leases.policy, policy) {
            leases.change_policy(policy);
        }
        let decision = leases.decide(now, op, cost.get(), &self.counters);
        let wants_lease = decision.is_some() && !is_closed && leases.wants_lease(now);
        LocalAnswer { decision, wants_lease, fingerprint }
    }

    /// Records the direct answer of the store to a request that was sent at `sent_at`. Returns whether to call
    /// [`begin_lease`](Self::begin_lease).
    pub fn note_direct(
        &self,
        now: u64,
        sent_at: u64,
        (op, policy, key, cost): (Op, &Policy, &Key<'_>, Cost),
        fingerprint: u128,
        decision: &Decision,
    ) -> bool {
        count(&self.counters.asked);
        let mut shard = self.shard(fingerprint).lock();
        let Shard { keys, heat, is_closed } = &mut *shard;
        let leases = match keys.get_mut(&fingerprint) {
            Some(leases) => leases,
            None => {
                let term = number_of(now, term_of(policy));
                let heat = heat.count(fingerprint, term);
                if !heat.is_hot(term) || *is_closed {
                    return false;
                }
                if keys.len() >= self.max_keys_of_shard {
                    count(&self.counters.no_room);
                    return false;
                }
                keys.entry(fingerprint).or_insert_with(|| KeyLeases::new(policy, key, heat, now))
            }
        };
        leases.note_direct(now, DirectAnswer { op, cost, decision, sent_at });
        !*is_closed && leases.wants_lease(now)
    }

    /// Begins to request a lease, if the key still needs one. Read `now` before the request is sent.
    pub fn begin_lease(&self, now: u64, fingerprint: u128) -> Option<LeaseRequest> {
        let mut shard = self.shard(fingerprint).lock();
        if shard.is_closed {
            return None;
        }
        shard.keys.get_mut(&fingerprint)?.begin_lease(now, fingerprint)
    }

    /// Records the answer to a request for a lease. Returns leases to settle at once.
    pub fn end_lease(
        &self,
        now: u64,
        request: LeaseRequest,
        answer: Result<&Leased, &StoreError>,
    ) -> Vec<SettleRequest> {
        let fingerprint = request.fingerprint;
        let mut shard = self.shard(fingerprint).lock();
        let is_closed = shard.is_closed;
        let Some(leases) = shard.keys.get_mut(&fingerprint) else { return Vec::new() };
        let mut requests = leases.end_lease(now, request, answer, &self.counters);
        if is_closed {
            leases.stop();
            requests.extend(leases.take_stopped(fingerprint));
        }
        requests
    }

    /// Records the answer to a settle: whether the lease was open, or `None` if the store did not answer.
    pub fn end_settle(&self, request: SettleRequest, known: Option<bool>) {
        let mut shard = self.shard(request.fingerprint).lock();
        if let Some(leases) = shard.keys.get_mut(&request.fingerprint) {
            leases.end_settle(request, known, &self.counters);
        }
    }

    /// Leases units to a client, as a part of a lease of this node. `now` is read after the request has arrived.
    pub fn lease_out(&self, now: u64, policy: &Policy, key: &Key<'_>, lease: &Lease) -> ClientLeaseAnswer {
        let fingerprint = self.fingerprints.of(policy, key);
        let mut shard = self.shard(fingerprint).lock();
        let is_closed = shard.is_closed || self.counters.clients.load(Relaxed) >= MAX_CLIENT_LEASES;
        let Some(of_key) = shard.keys.get_mut(&fingerprint).filter(|_| !is_closed) else {
            return ClientLeaseAnswer { leased: None, wants_lease: false, fingerprint };
        };
        if !external_store::decide_alike(&of_key.policy, policy) {
            of_key.change_policy(policy);
        }
        let leased = of_key.lease_out(now, fingerprint, external_store::nonce(), lease, &self.counters);
        let wants_lease = leased.is_some() && of_key.wants_lease(now);
        ClientLeaseAnswer { leased, wants_lease, fingerprint }
    }

    /// Records the lease that the shared store granted to a client. Returns whether to call
    /// [`begin_lease`](Self::begin_lease).
    pub fn note_client_lease(
        &self,
        now: u64,
        policy: &Policy,
        key: &Key<'_>,
        fingerprint: u128,
        leased: &Leased,
    ) -> bool {
        if leased.granted == 0 || leased.decision.is_degraded() {
            return false;
        }
        let mut shard = self.shard(fingerprint).lock();
        let Shard { keys, is_closed, .. } = &mut *shard;
        if *is_closed {
            return false;
        }
        // Clients lease any key, so half of the room is for keys that are requested often.
        if !keys.contains_key(&fingerprint) && keys.len() >= self.max_keys_of_shard.div_ceil(2) {
            count(&self.counters.no_room);
            return false;
        }
        let new = || KeyLeases::new(policy, key, Heat::default(), now);
        let of_key = keys.entry(fingerprint).or_insert_with(new);
        of_key.note_client_lease(now, leased.granted);
        of_key.wants_lease(now)
    }

    /// Closes the lease of a client, of which `spent` units were spent. Returns whether it was open, or `None` if this node
    /// did not grant it. With a `key`, it must be of that key.
    ///
    /// # Errors
    /// If more units were spent than the lease has, or it is of another key.
    pub fn settle_client(
        &self,
        now: u64,
        policy: &Policy,
        key: Option<&Key<'_>>,
        id: &ReservationId,
        spent: u64,
    ) -> Result<Option<bool>, ReservationError> {
        if id.is_never_granted() {
            return Ok(None);
        }
        // The id of another store has no state here.
        let Ok(fingerprint) = id.state_in_process(policy) else { return Ok(None) };
        let mut shard = self.shard(fingerprint).lock();
        let Some(leases) = shard.keys.get_mut(&fingerprint) else { return Ok(None) };
        if key.is_some_and(|key| self.fingerprints.of(policy, key) != fingerprint) {
            return Err(ReservationError::OtherKey);
        }
        leases.settle_client(now, id.nonce(), spent, &self.counters).map(Some)
    }

    /// Takes back units if their lease is open. Returns whether it was, or `None` if the store has to give them back.
    pub fn refund(&self, now: u64, policy: &Policy, key: &Key<'_>, cost: Cost, charged_at: Timestamp) -> Option<bool> {
        let refund_of = self.with(policy, key, |leases| leases.refund(now, cost.get(), charged_at));
        match refund_of? {
            RefundOf::Store => None,
            RefundOf::OpenLease => Some(true),
            RefundOf::EndedLease => {
                count(&self.counters.refunds_dropped);
                Some(false)
            }
        }
    }

    /// Stops all leases of a key, because its limits change. Returns the leases to settle.
    pub fn stop(&self, policy: &Policy, key: &Key<'_>) -> Vec<SettleRequest> {
        let fingerprint = self.fingerprints.of(policy, key);
        let stopped = self.with(policy, key, |leases| {
            leases.stop();
            leases.forget_denial();
            leases.take_stopped(fingerprint)
        });
        stopped.unwrap_or_default()
    }

    /// Forgets the leases of a key whose state is deleted in the store.
    pub fn forget(&self, policy: &Policy, key: &Key<'_>) {
        self.with(policy, key, |leases| leases.forget_leases(&self.counters));
    }

    /// Forgets what the store denied, because units may have been given back.
    pub fn forget_denial(&self, policy: &Policy, key: &Key<'_>) {
        self.with(policy, key, KeyLeases::forget_denial);
    }

    fn with<T>(&self, policy: &Policy, key: &Key<'_>, act: impl FnOnce(&mut KeyLeases) -> T) -> Option<T> {
        let fingerprint = self.fingerprints.of(policy, key);
        self.shard(fingerprint).lock().keys.get_mut(&fingerprint).map(act)
    }

    /// Stops leases that have ended or are idle, and forgets keys without any. Returns the leases to settle. Call it several
    /// times in a term.
    pub fn sweep(&self, now: u64) -> Vec<SettleRequest> {
        let mut requests = Vec::new();
        for shard in &self.shards {
            shard.lock().keys.retain(|fingerprint, leases| {
                requests.extend(leases.settle_idle(now, *fingerprint, &self.counters));
                !leases.is_unused(now)
            });
        }
        requests
    }

    /// Stops all leases and requests no more. Returns the leases to settle.
    pub fn close(&self) -> Vec<SettleRequest> {
        let mut requests = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.is_closed = true;
            for (fingerprint, leases) in &mut shard.keys {
                leases.stop();
                requests.extend(leases.take_stopped(*fingerprint));
            }
        }
        requests
    }

    /// The counts so far, and the leases at `now`.
    pub fn stats(&self, now: u64) -> Stats {
        let mut stats = self.counters.snapshot();
        for shard in &self.shards {
            let shard = shard.lock();
            stats.keys += shard.keys.len() as u64;
            for leases in shard.keys.values() {
                let left = leases.left(now);
                stats.open += u64::from(left.is_some());
                stats.left += left.unwrap_or(0);
            }
        }
        stats
    }

    /// The keys for which this node has decided most requests by itself, those with the most first: at most `most`.
    pub fn keys(&self, now: u64, most: usize) -> Vec<LeasedKey> {
        let mut busiest = BinaryHeap::with_capacity(most + 1);
        for shard in &self.shards {
            for (fingerprint, leases) in &shard.lock().keys {
                busiest.push(Reverse((leases.decided(), *fingerprint)));
                if busiest.len() > most {
                    busiest.pop();
                }
            }
        }
        let report = |Reverse((_, fingerprint)): Reverse<(u64, u128)>| {
            self.shard(fingerprint).lock().keys.get(&fingerprint).map(|leases| leases.report(now))
        };
        busiest.into_sorted_vec().into_iter().filter_map(report).collect()
    }

    fn shard(&self, fingerprint: u128) -> &Mutex<Shard> {
        // The higher half places the key in the table of the shard.
        &self.shards[fingerprint as usize % SHARDS]
    }
}
