//! [`Hits`]: the keys that one policy denies most, and those near its limit.
//!
//! It counts the last five to ten minutes: in one sketch now, and in another one for the five minutes before.

#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tidegate::{Decision, Key};

use super::{
    denials::{self, DenialCause, KeyDenials, SLOTS},
    sketch::{Count, Sketch},
};
use crate::{metrics::DecisionClass, service::PolicyObserver};

/// Number of denials in a second that are counted exactly. Beyond them, one in [`SAMPLED`] is counted with that weight.
const EXACT: u32 = 10_000;
const SAMPLED: u32 = 16;

/// Maximum number of keys near the limit that are recorded in a second. They are inspected when they are shown.
const MAX_NEAR: u32 = 1_000;

/// Maximum bytes of the keys in all sketches of a service. Beyond that, new keys are not recorded.
const MAX_KEY_BYTES: isize = 16_000_000;

/// Shared by the counts of all policies.
#[derive(Debug, Default)]
pub(super) struct SharedCounts {
    /// Bytes of the keys in all sketches of the service.
    key_bytes: AtomicIsize,
    /// The current slot of the span.
    pub(super) slot: AtomicUsize,
}

/// The counts of the keys of one policy.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    shared: Arc<SharedCounts>,
    pair: Mutex<Pair>,
    denied_now: AtomicU32,
    near_now: AtomicU32,
    /// All denials since the start of the two sketches.
    denials: [AtomicU64; 2],
    sampled: [AtomicBool; 2],
}

#[derive(Debug, Default)]
struct Pair {
    now: Sketches,
    before: Sketches,
}

#[derive(Debug, Default)]
struct Sketches {
    denied: Sketch<KeyDenials>,
    near: Sketch,
}

/// The keys with the most denials.
#[derive(Debug, Default)]
pub(crate) struct MostDenied {
    /// Denials of all keys.
    pub(crate) denials: u64,
    /// Whether some of them are estimated.
    pub(crate) sampled: bool,
    /// The keys in descending order of denials.
    pub(crate) keys: Vec<DeniedCount>,
    /// Maximum error of a count.
    pub(crate) error: u64,
}

/// The denials of one key.
#[derive(Debug, Clone)]
pub(crate) struct DeniedCount {
    pub(crate) key: Key<'static>,
    pub(crate) count: Count,
    /// At least this many of them are recent.
    pub(crate) recent: u64,
    /// The cause of the last denial.
    pub(crate) cause: Option<DenialCause>,
}

/// The denials of one key over time.
#[derive(Debug)]
pub(crate) struct DenialSeries {
    pub(crate) count: Count,
    pub(crate) cause: Option<DenialCause>,
    /// The denials in each of the last slots, the current one last.
    pub(crate) slots: Vec<u32>,
}

/// Returns whether a denial beyond the exact ones is counted: one in [`SAMPLED`]. Multiples of the golden ratio spread them so that
/// no rhythm of requests coincides with them.
fn is_sampled(number: u32) -> bool {
    number.wrapping_mul(0x9e37_79b1) < u32::MAX / SAMPLED
}

impl Hits {
    /// Creates counts that add the bytes of their keys to the shared sum.
    pub(super) fn new(shared: &Arc<SharedCounts>) -> Self {
        Self { shared: Arc::clone(shared), ..Self::default() }
    }

    fn may_add(&self) -> bool {
        self.shared.key_bytes.load(Relaxed) <= MAX_KEY_BYTES
    }

    fn grow(&self, bytes: isize) {
        if bytes != 0 {
            self.shared.key_bytes.fetch_add(bytes, Relaxed);
        }
    }

    fn count_denied(&self, key: &Key<'_>, weight: u32, decision: &Decision) {
        let (may_add, slot) = (self.may_add(), self.shared.slot.load(Relaxed));
        let grown = {
            let mut pair = self.pair.lock();
            let (details, grown) = pair.now.denied.count(key, weight.into(), may_add);
            if let Some(details) = details {
                details.add(slot, weight, decision);
            }
            grown
        };
        self.grow(grown);
    }

    fn count_near(&self, key: &Key<'_>) {
        let may_add = self.may_add();
        let (_, grown) = self.pair.lock().now.near.count(key, 1, may_add);
        self.grow(grown);
    }

    /// Begins a second; with `span` also new sketches.
    pub(super) fn tick(&self, span: bool) {
        self.denied_now.store(0, Relaxed);
        self.near_now.store(0, Relaxed);
        if span {
            let mut pair = self.pair.lock();
            let now = std::mem::take(&mut pair.now);
            let gone = std::mem::replace(&mut pair.before, now);
            let bytes = gone.denied.key_bytes() + gone.near.key_bytes();
            self.shared.key_bytes.fetch_sub(bytes.cast_signed(), Relaxed);
            self.denials[1].store(self.denials[0].swap(0, Relaxed), Relaxed);
            self.sampled[1].store(self.sampled[0].swap(false, Relaxed), Relaxed);
        }
    }

    /// Removes all keys.
    pub(super) fn clear(&self) {
        self.tick(true);
        self.tick(true);
    }

    /// Returns the number of denials of all keys.
    pub(super) fn denials(&self) -> u64 {
        self.denials[0].load(Relaxed) + self.denials[1].load(Relaxed)
    }

    /// Returns the keys with the most denials.
    pub(crate) fn most_denied(&self, max: usize) -> MostDenied {
        let pair = self.pair.lock();
        MostDenied {
            denials: self.denials(),
            sampled: self.sampled.iter().any(|sampled| sampled.load(Relaxed)),
            keys: pair.ranked(self.shared.slot.load(Relaxed), max, |denied| denied.count.max),
            error: pair.now.denied.max_unseen() + pair.before.denied.max_unseen(),
        }
    }

    /// Returns the keys with the most recent denials.
    pub(super) fn most_denied_now(&self, max: usize) -> Vec<DeniedCount> {
        self.pair.lock().ranked(self.shared.slot.load(Relaxed), max, |denied| denied.recent)
    }

    /// Returns the denials of one key over time.
    pub(crate) fn series(&self, key: &Key<'_>) -> DenialSeries {
        let slot = self.shared.slot.load(Relaxed);
        let pair = self.pair.lock();
        let [now, before] = pair.details(key);
        let all = denials::by_slot(before, now, slot);
        DenialSeries {
            count: pair.count(key),
            cause: now.or(before).and_then(|details| details.cause),
            slots: all.skip(slot.min(SLOTS - 1) + 1).collect(),
        }
    }

    /// Returns keys that came near their limit or beyond it.
    pub(crate) fn candidates(&self, max: usize) -> Vec<Key<'static>> {
        let mut found: Vec<(u64, Key<'static>)> = {
            let Pair { now, before } = &*self.pair.lock();
            let near = [&now.near, &before.near].into_iter().flat_map(Sketch::counted);
            let denied = [&now.denied, &before.denied].into_iter().flat_map(Sketch::counted);
            near.chain(denied).map(|(key, count)| (count.max, key.clone())).collect()
        };
        let mut seen = HashSet::with_capacity(found.len());
        found.retain(|(_, key)| seen.insert(key.clone()));
        found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        found.truncate(max);
        found.into_iter().map(|(_, key)| key).collect()
    }
}

impl Pair {
    /// Returns the bounds for the denials of any key.
    fn count(&self, key: &Key<'_>) -> Count {
        let (a, b) = (self.now.denied.of(key), self.before.denied.of(key));
        Count { max: a.max + b.max, error: a.error + b.error }
    }

    /// Returns the denials of a key in the current span and in the one before.
    fn details(&self, key: &Key<'_>) -> [Option<&KeyDenials>; 2] {
        [&self.now, &self.before].map(|sketches| sketches.denied.find(key).map(|(_, details)| details))
    }

    /// Returns the keys with a counter in descending order of a number.
    fn ranked(&self, slot: usize, max: usize, number: fn(&DeniedCount) -> u64) -> Vec<DeniedCount> {
        let (now, before) = (&self.now.denied, &self.before.denied);
        let only_before = before.keys().iter().filter(|key| now.find(key).is_none());
        let denied = |key: &Key<'static>| {
            let [now, before] = self.details(key);
            DeniedCount {
                key: key.clone(),
                count: self.count(key),
                recent: denials::recent(before, now, slot),
                cause: now.or(before).and_then(|details| details.cause),
            }
        };
        let mut keys: Vec<_> = now.keys().iter().chain(only_before).map(denied).collect();
        keys.sort_by(|a, b| number(b).cmp(&number(a)).then_with(|| a.key.as_bytes().cmp(b.key.as_bytes())));
        keys.truncate(max);
        keys
    }
}

impl PolicyObserver for Hits {
    fn decided(&self, class: DecisionClass, key: &Key<'_>, decision: &Decision) {
        match class {
            DecisionClass::Ordinary => {}
            DecisionClass::NearLimit => {
                if self.near_now.fetch_add(1, Relaxed) < MAX_NEAR {
                    self.count_near(key);
                }
            }
            DecisionClass::Denied => {
                self.denials[0].fetch_add(1, Relaxed);
                let number = self.denied_now.fetch_add(1, Relaxed);
                if number < EXACT {
                    self.count_denied(key, 1, decision);
                } else if is_sampled(number) {
                    self.sampled[0].store(true, Relaxed);
                    self.count_denied(key, SAMPLED, decision);
                }
            }
        }
    }
}
