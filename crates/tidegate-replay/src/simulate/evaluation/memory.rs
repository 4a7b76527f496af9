//! The size of a key's state.
//!
//! A store's table has free slots. Their number depends on a secret that differs between runs. So a sample of the clients is measured:
//! each has stores of its own, and the size of such a store beyond an almost empty one is the size of the key. The sample are the
//! clients with the lowest hashes. So it does not depend on the order of the clients, and includes every request of its clients.

use std::collections::BTreeMap;

use tidegate::{Algorithm, Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

use super::audit::{policy, single_client_store};
use crate::{formatting::ratio, simulate::random::hash_bytes, window_us};

/// Maximum number of clients in the sample.
pub const SAMPLE_SIZE: usize = 64;
/// Maximum number of requests in which a key spends its whole limit.
const FULL: u64 = 10_000;
/// Size of a slot in a store's table.
const SLOT: usize = 32;

/// The sampled clients.
#[derive(Debug)]
pub(super) struct ClientSample {
    policies: Vec<Policy>,
    baseline: usize,
    /// The stores of each client, by the hash of its key.
    stores: BTreeMap<u64, Vec<ClientStore>>,
    highest: u64,
}

/// The store of one key, and its largest size so far.
#[derive(Debug)]
struct ClientStore {
    store: MemoryStore,
    peak: usize,
}

impl ClientStore {
    fn new() -> Self {
        Self { store: single_client_store(), peak: 0 }
    }

    fn charge(&mut self, policy: &Policy, key: &Key<'_>, cost: Cost, now: Timestamp) {
        let _ = self.store.decide(Op::Charge, policy, key, cost, now);
    }

    fn measure(&mut self, baseline: usize) {
        self.peak = self.peak.max(SLOT + self.store.stats().bytes.saturating_sub(baseline));
    }
}

impl ClientSample {
    pub(super) fn new(limit: Limit, algorithms: &[Algorithm]) -> Self {
        let policies = algorithms.iter().map(|algorithm| policy(limit).with_algorithm(*algorithm)).collect();
        Self { policies, baseline: baseline(limit), stores: BTreeMap::new(), highest: u64::MAX }
    }

    /// Adds a new client to the sample if the hash of its key is low enough. Returns the hash.
    pub(super) fn add(&mut self, key: &Key<'_>) -> u64 {
        let hash = hash_bytes(key.as_bytes());
        if self.stores.len() < SAMPLE_SIZE || hash < self.highest {
            self.stores.insert(hash, self.policies.iter().map(|_| ClientStore::new()).collect());
            if self.stores.len() > SAMPLE_SIZE {
                self.stores.pop_last();
            }
            if self.stores.len() == SAMPLE_SIZE {
                self.highest = self.stores.last_key_value().map_or(self.highest, |(hash, _)| *hash);
            }
        }
        hash
    }

    /// Charges a request that the algorithm with this number admitted. A denied request leaves no trace.
    pub(super) fn charge(&mut self, hash: u64, algorithm: usize, key: &Key<'_>, cost: Cost, now: Timestamp) {
        if hash <= self.highest
            && let Some(stores) = self.stores.get_mut(&hash)
        {
            stores[algorithm].charge(&self.policies[algorithm], key, cost, now);
            stores[algorithm].measure(self.baseline);
        }
    }

    /// Returns the largest size of a sampled client's state, on average over the clients that had one.
    pub(super) fn mean_bytes(&self, algorithm: usize) -> f64 {
        let peaks = self.stores.values().map(|stores| stores[algorithm].peak as u64).filter(|peak| *peak > 0);
        let (sum, count) = peaks.fold((0, 0), |(sum, count), peak| (sum + peak, count + 1));
        ratio(sum, count)
    }
}

/// Returns the size of a store with one key whose state fits into its slot.
fn baseline(limit: Limit) -> usize {
    let mut store = ClientStore::new();
    let fixed = policy(limit).with_algorithm(Algorithm::FixedWindow);
    let key = Key::new("baseline").expect("a key");
    store.charge(&fixed, &key, Cost::ONE, Timestamp::from_micros(0));
    store.store.stats().bytes
}

/// Returns the size of a key that spends its whole limit evenly in every window, in one request for each unit, at most ten thousand.
pub(super) fn full_key(limit: Limit, algorithm: Algorithm) -> u64 {
    let policy = policy(limit).with_algorithm(algorithm);
    let (baseline, mut store) = (baseline(limit), ClientStore::new());
    let key = Key::new("full").expect("a key");
    let requests = limit.max().min(FULL).min(window_us(limit));
    let cost = Cost::new(limit.max() / requests).expect("at most the limit");
    // Two windows: a log deletes whole blocks, and is largest just before. A window has at most 2^45 microseconds, so the product fits.
    for request in 0..2 * requests {
        let now = Timestamp::from_micros(window_us(limit) * request / requests);
        store.charge(&policy, &key, cost, now);
        if request + 1 >= requests {
            store.measure(baseline);
        }
    }
    store.peak as u64
}
