//! [`Hits`]: the keys that one policy denies most, and those near its limit.
//!
//! It counts the last five to ten minutes: in one sketch now, and in another one for the five minutes before.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tidegate::Key;

use super::sketch::{Count, Sketch};
use crate::{metrics::DecisionClass, service::PolicyObserver};

/// Seconds until a new sketch replaces the current one.
pub(super) const SPAN_S: u64 = 5 * 60;

/// Number of denials in a second that are counted exactly. Beyond them, one in [`SAMPLED`] is counted with that weight.
const EXACT: u32 = 10_000;
const SAMPLED: u32 = 16;

/// Maximum number of keys near the limit that are recorded in a second. They are inspected when they are shown.
const MAX_NEAR: u32 = 1_000;

/// Maximum bytes of the keys in all sketches of a service. Beyond that, new keys are not recorded.
const MAX_KEY_BYTES: isize = 16 << 20;

/// The counts of the keys of one policy.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    /// Bytes of the keys in all sketches of the service.
    key_bytes: Arc<AtomicIsize>,
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
    denied: Sketch,
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
    pub(crate) keys: Vec<(Key<'static>, Count)>,
    /// Maximum error of a count.
    pub(crate) error: u64,
}

/// Returns whether a denial beyond the exact ones is counted: one in [`SAMPLED`]. Multiples of the golden ratio spread them so that
/// no rhythm of requests coincides with them.
fn is_sampled(number: u32) -> bool {
    number.wrapping_mul(0x9e37_79b1) < u32::MAX / SAMPLED
}

impl Hits {
    /// Creates counts that add the bytes of their keys to `key_bytes`.
    pub(super) fn new(key_bytes: &Arc<AtomicIsize>) -> Self {
        Self { key_bytes: Arc::clone(key_bytes), ..Self::default() }
    }

    fn count(&self, key: &Key<'_>, weight: u64, sketch: fn(&mut Sketches) -> &mut Sketch) {
        let may_add = self.key_bytes.load(Relaxed) <= MAX_KEY_BYTES;
        let grown = sketch(&mut self.pair.lock().now).count(key, weight, may_add);
        if grown != 0 {
            self.key_bytes.fetch_add(grown, Relaxed);
        }
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
            self.key_bytes.fetch_sub(bytes.cast_signed(), Relaxed);
            self.denials[1].store(self.denials[0].swap(0, Relaxed), Relaxed);
            self.sampled[1].store(self.sampled[0].swap(false, Relaxed), Relaxed);
        }
    }

    /// Removes all keys.
    pub(super) fn clear(&self) {
        self.tick(true);
        self.tick(true);
    }

    /// Returns the keys with the most denials.
    pub(crate) fn most_denied(&self, max: usize) -> MostDenied {
        let pair = self.pair.lock();
        let (now, before) = (&pair.now.denied, &pair.before.denied);
        let fresh = before.keys().iter().filter(|key| now.find(key).is_none());
        let both = |key: &Key<'static>| {
            let (a, b) = (now.of(key), before.of(key));
            (key.clone(), Count { max: a.max + b.max, error: a.error + b.error })
        };
        let mut keys: Vec<_> = now.keys().iter().chain(fresh).map(both).collect();
        keys.sort_by(|(key, count), (other_key, other)| {
            other.max.cmp(&count.max).then_with(|| key.as_bytes().cmp(other_key.as_bytes()))
        });
        keys.truncate(max);
        MostDenied {
            denials: self.denials[0].load(Relaxed) + self.denials[1].load(Relaxed),
            sampled: self.sampled.iter().any(|sampled| sampled.load(Relaxed)),
            keys,
            error: now.max_unseen() + before.max_unseen(),
        }
    }

    /// Returns keys that came near their limit or beyond it.
    pub(crate) fn candidates(&self, max: usize) -> Vec<Key<'static>> {
        let mut found: Vec<(u64, Key<'static>)> = {
            let pair = self.pair.lock();
            let sketches = [&pair.now.near, &pair.now.denied, &pair.before.near, &pair.before.denied];
            let counted =
                |sketch: &&Sketch| sketch.counted().map(|(key, count)| (count.max, key.clone())).collect::<Vec<_>>();
            sketches.iter().flat_map(counted).collect()
        };
        let mut seen = HashSet::with_capacity(found.len());
        found.retain(|(_, key)| seen.insert(key.clone()));
        found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        found.truncate(max);
        found.into_iter().map(|(_, key)| key).collect()
    }
}

impl PolicyObserver for Hits {
    fn decided(&self, class: DecisionClass, key: &Key<'_>) {
        match class {
            DecisionClass::Ordinary => {}
            DecisionClass::NearLimit => {
                if self.near_now.fetch_add(1, Relaxed) < MAX_NEAR {
                    self.count(key, 1, |sketches| &mut sketches.near);
                }
            }
            DecisionClass::Denied => {
                self.denials[0].fetch_add(1, Relaxed);
                let number = self.denied_now.fetch_add(1, Relaxed);
                if number < EXACT {
                    self.count(key, 1, |sketches| &mut sketches.denied);
                } else if is_sampled(number) {
                    self.sampled[0].store(true, Relaxed);
                    self.count(key, SAMPLED.into(), |sketches| &mut sketches.denied);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicIsize, Ordering::Relaxed},
    };

    use tidegate::Key;

    use super::{EXACT, Hits, MAX_KEY_BYTES, SAMPLED};
    use crate::{metrics::DecisionClass, service::PolicyObserver as _};

    fn key(text: &str) -> Key<'_> {
        Key::new(text).unwrap()
    }

    #[test]
    fn the_most_denied_key_comes_first_and_counts_expire_after_two_spans() {
        let budget = Arc::new(AtomicIsize::new(0));
        let hits = Hits::new(&budget);
        for (name, times) in [("a", 3), ("b", 5), ("c", 1)] {
            (0..times).for_each(|_| hits.decided(DecisionClass::Denied, &key(name)));
        }
        hits.decided(DecisionClass::NearLimit, &key("d"));
        hits.decided(DecisionClass::Ordinary, &key("e"));
        let shown = hits.most_denied(2);
        let names: Vec<_> = shown.keys.iter().map(|(key, count)| (key.as_bytes().to_vec(), count.max)).collect();
        assert_eq!(names, [(b"b".to_vec(), 5), (b"a".to_vec(), 3)]);
        assert_eq!((shown.denials, shown.error, shown.sampled), (9, 0, false));
        assert_eq!(hits.candidates(9).len(), 4, "all except the ordinary decision");
        hits.tick(true);
        hits.decided(DecisionClass::Denied, &key("b"));
        assert_eq!(hits.most_denied(1).keys[0].1.max, 6, "both spans count");
        hits.tick(true);
        assert_eq!(hits.most_denied(9).denials, 1);
        hits.tick(true);
        assert_eq!((hits.most_denied(9).keys.len(), budget.load(Relaxed)), (0, 0));
    }

    #[test]
    fn a_flood_is_sampled_at_any_rhythm() {
        let names: Vec<String> = (0..24).map(|i| format!("key {i}")).collect();
        for of in [1, 2, 3, 16, 24] {
            let budget = Arc::new(AtomicIsize::new(0));
            let hits = Hits::new(&budget);
            let each = 100 * SAMPLED;
            (0..EXACT).for_each(|_| hits.decided(DecisionClass::Denied, &key("before")));
            for i in 0..of * each {
                hits.decided(DecisionClass::Denied, &key(&names[(i % of) as usize]));
            }
            let shown = hits.most_denied(1 + names.len());
            assert_eq!((shown.denials, shown.sampled), (u64::from(EXACT + of * each), true));
            assert_eq!(shown.keys.len(), 1 + of as usize);
            for (key, count) in &shown.keys[1..] {
                assert!(count.max.abs_diff(each.into()) <= u64::from(each) / 5, "{key:?} of {of}: {count:?}");
            }
            hits.tick(false);
            hits.decided(DecisionClass::Denied, &key("before"));
            assert_eq!(
                hits.most_denied(1).keys[0].1.max,
                u64::from(EXACT) + 1,
                "counts are exact again in the next second"
            );
            hits.tick(true);
            assert!(hits.most_denied(1).sampled, "while the estimated counts are included");
            hits.tick(true);
            assert!(!hits.most_denied(1).sampled);
        }
    }

    #[test]
    fn beyond_the_maximum_of_key_bytes_no_new_key_is_recorded() {
        let budget = Arc::new(AtomicIsize::new(MAX_KEY_BYTES + 1));
        let hits = Hits::new(&budget);
        hits.decided(DecisionClass::Denied, &key("a"));
        let shown = hits.most_denied(1);
        assert_eq!((shown.denials, shown.keys.len()), (1, 0));
    }
}
