//! What a key's state takes.
//!
//! A store's table has free places, and how many depends on a secret that differs from run to run. So some clients are followed:
//! each has stores of its own that hold nothing else, and what such a store takes beyond an almost empty one is the key's. The
//! clients are those whose scattered names are lowest: an even sample that doesn't depend on the order they come in, and whoever
//! belongs to it at the end was followed from its first request.

use std::collections::BTreeMap;

use tidegate::{Algorithm, Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

use super::audit::{for_one, policy};
use crate::simulate::{random::scatter_bytes, traffic::window_us};

/// How many clients are followed at the most.
pub const FOLLOWED: usize = 64;
/// A key that spends its whole limit does so in this many requests at the most.
const FULL: u64 = 10_000;
/// What every key takes in a store's table.
const SLOT: usize = 32;

/// A client's scattered name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark(u64);

/// The clients that are followed.
#[derive(Debug)]
pub(super) struct Followed {
    policies: Vec<Policy>,
    baseline: usize,
    by_mark: BTreeMap<Mark, Vec<Own>>,
    highest: Mark,
}

/// A key's own store, and the most that it took so far.
#[derive(Debug)]
struct Own {
    store: MemoryStore,
    peak: usize,
}

impl Own {
    fn new() -> Self {
        Self { store: for_one(), peak: 0 }
    }

    fn charge(&mut self, policy: &Policy, key: &Key<'_>, cost: Cost, now: Timestamp) {
        let _ = self.store.decide(Op::Charge, policy, key, cost, now);
    }

    fn measure(&mut self, baseline: usize) {
        self.peak = self.peak.max(SLOT + self.store.stats().bytes.saturating_sub(baseline));
    }
}

impl Followed {
    pub(super) fn new(limit: Limit, algorithms: &[Algorithm]) -> Self {
        let policies = algorithms.iter().map(|algorithm| policy(limit).with_algorithm(*algorithm)).collect();
        Self { policies, baseline: baseline(limit), by_mark: BTreeMap::new(), highest: Mark(u64::MAX) }
    }

    /// Meets a client for the first time, and may follow it from now on.
    pub(super) fn meet(&mut self, key: &Key<'_>) -> Mark {
        let mark = Mark(scatter_bytes(key.as_bytes()));
        if self.by_mark.len() < FOLLOWED || mark < self.highest {
            self.by_mark.insert(mark, self.policies.iter().map(|_| Own::new()).collect());
            if self.by_mark.len() > FOLLOWED {
                self.by_mark.pop_last();
            }
            if self.by_mark.len() == FOLLOWED {
                self.highest = self.by_mark.last_key_value().map_or(self.highest, |(mark, _)| *mark);
            }
        }
        mark
    }

    /// Charges what the limiter at `place` has let through. What it denied leaves no trace.
    pub(super) fn charge(&mut self, mark: Mark, place: usize, key: &Key<'_>, cost: Cost, now: Timestamp) {
        if mark <= self.highest
            && let Some(own) = self.by_mark.get_mut(&mark)
        {
            own[place].charge(&self.policies[place], key, cost, now);
            own[place].measure(self.baseline);
        }
    }

    /// The most bytes that a followed client's state took, on average over those that had one.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn mean_bytes(&self, place: usize) -> f64 {
        let peaks = self.by_mark.values().map(|own| own[place].peak).filter(|peak| *peak > 0);
        let (sum, number) = peaks.fold((0, 0_usize), |(sum, number), peak| (sum + peak, number + 1));
        if number == 0 { 0.0 } else { sum as f64 / number as f64 }
    }
}

/// What a store takes for one key whose state fits into its slot.
fn baseline(limit: Limit) -> usize {
    let own = Own::new();
    let fixed = policy(limit).with_algorithm(Algorithm::FixedWindow);
    let key = Key::new("baseline").expect("a key");
    let _ = own.store.decide(Op::Charge, &fixed, &key, Cost::ONE, Timestamp::from_micros(0));
    own.store.stats().bytes
}

/// Bytes of a key that spends its whole limit evenly in every window, in as many requests as there are units, but no more than ten
/// thousand.
pub(super) fn full_key(limit: Limit, algorithm: Algorithm) -> u64 {
    let policy = policy(limit).with_algorithm(algorithm);
    let (baseline, mut own) = (baseline(limit), Own::new());
    let key = Key::new("full").expect("a key");
    let requests = limit.max().min(FULL).min(window_us(limit));
    let cost = Cost::new(limit.max() / requests).expect("no more than a limit");
    // Two windows, since a log forgets in blocks and is largest when it is about to. One is at most 2^45 microseconds, so the
    // product fits.
    for request in 0..2 * requests {
        let now = Timestamp::from_micros(window_us(limit) * request / requests);
        own.charge(&policy, &key, cost, now);
        if request + 1 >= requests {
            own.measure(baseline);
        }
    }
    own.peak as u64
}
