//! [`Hits`]: whom one policy denies most, and who comes near its limit.
//!
//! Of the last five to ten minutes: what is counted now, and what was counted in the five minutes before that.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use parking_lot::Mutex;
use tidegate::{Decision, Key, Reason};

use super::sketch::{Count, Sketch};

/// How long a sketch is counted in before the next one is begun.
pub(super) const SPAN: u64 = 5 * 60;

/// So many denials in a second are counted each; of those beyond, one in [`SAMPLED`] for that many.
const EACH: u32 = 10_000;
const SAMPLED: u32 = 16;

/// So many near ones in a second are noted; they are candidates only, and looked at when they are shown.
const NEAR_EACH: u32 = 1_000;

/// The most bytes of keys that all sketches of a service hold together: beyond that, keys that are new are not followed.
const MAX_KEY_BYTES: isize = 16 << 20;

/// What is counted of the keys of one policy.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    pair: Mutex<Pair>,
    denied_now: AtomicU32,
    near_now: AtomicU32,
    /// All denials since the sketches in use were begun.
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

/// Who is shown.
#[derive(Debug, Default)]
pub(crate) struct Hardest {
    /// Denials of all keys.
    pub(crate) denials: u64,
    /// Whether some of them are estimated.
    pub(crate) sampled: bool,
    /// The keys denied most, those first.
    pub(crate) keys: Vec<(Key<'static>, Count)>,
    /// The most by which a count can be too high.
    pub(crate) error: u64,
}

/// What a decision is to those who look on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notable {
    Ordinary,
    /// Allowed, with four fifths of the limit in use or more.
    Near,
    Denied,
}

impl Notable {
    #[inline]
    pub(crate) fn of(decision: &Decision) -> Self {
        if decision.reason() != Reason::Allowed {
            return Self::Denied;
        }
        // As Envoy's own service has it.
        let near = u128::from(decision.used()) * 5 >= u128::from(decision.capacity()) * 4;
        if near { Self::Near } else { Self::Ordinary }
    }
}

/// Whether one of those beyond is counted: one in [`SAMPLED`], spread so that no rhythm of requests falls in with it (multiples of the golden
/// ratio are nowhere dense).
fn is_sampled(number: u32) -> bool {
    number.wrapping_mul(0x9e37_79b1) < u32::MAX / SAMPLED
}

impl Hits {
    /// Notes whose decision was not an ordinary one.
    pub(crate) fn note(&self, notable: Notable, key: &Key<'_>, budget: &AtomicIsize) {
        match notable {
            Notable::Ordinary => {}
            Notable::Near => {
                if self.near_now.fetch_add(1, Relaxed) < NEAR_EACH {
                    self.count(key, 1, budget, |sketches| &mut sketches.near);
                }
            }
            Notable::Denied => {
                self.denials[0].fetch_add(1, Relaxed);
                let number = self.denied_now.fetch_add(1, Relaxed);
                if number < EACH {
                    self.count(key, 1, budget, |sketches| &mut sketches.denied);
                } else if is_sampled(number) {
                    self.sampled[0].store(true, Relaxed);
                    self.count(key, SAMPLED.into(), budget, |sketches| &mut sketches.denied);
                }
            }
        }
    }

    fn count(&self, key: &Key<'_>, weight: u64, budget: &AtomicIsize, of: fn(&mut Sketches) -> &mut Sketch) {
        let may_hold = budget.load(Relaxed) <= MAX_KEY_BYTES;
        let grown = of(&mut self.pair.lock().now).count(key, weight, may_hold);
        if grown != 0 {
            budget.fetch_add(grown, Relaxed);
        }
    }

    /// Begins a second; with `span` also new sketches.
    pub(super) fn tick(&self, span: bool, budget: &AtomicIsize) {
        self.denied_now.store(0, Relaxed);
        self.near_now.store(0, Relaxed);
        if span {
            let mut pair = self.pair.lock();
            let now = std::mem::take(&mut pair.now);
            let gone = std::mem::replace(&mut pair.before, now);
            let bytes = gone.denied.key_bytes() + gone.near.key_bytes();
            budget.fetch_sub(bytes.cast_signed(), Relaxed);
            self.denials[1].store(self.denials[0].swap(0, Relaxed), Relaxed);
            self.sampled[1].store(self.sampled[0].swap(false, Relaxed), Relaxed);
        }
    }

    /// Gives back what the keys that are held took.
    pub(super) fn release(&self, budget: &AtomicIsize) {
        self.tick(true, budget);
        self.tick(true, budget);
    }

    /// The keys denied most, so many of them.
    pub(crate) fn hardest(&self, most: usize) -> Hardest {
        let pair = self.pair.lock();
        let (now, before) = (&pair.now.denied, &pair.before.denied);
        let fresh = before.keys().iter().filter(|key| !now.has(key));
        let both = |key: &Key<'static>| {
            let (a, b) = (now.of(key), before.of(key));
            (key.clone(), Count { most: a.most + b.most, error: a.error + b.error })
        };
        let mut keys: Vec<_> = now.keys().iter().chain(fresh).map(both).collect();
        keys.sort_by(|(key, count), (other_key, other)| {
            other.most.cmp(&count.most).then_with(|| key.as_bytes().cmp(other_key.as_bytes()))
        });
        keys.truncate(most);
        Hardest {
            denials: self.denials[0].load(Relaxed) + self.denials[1].load(Relaxed),
            sampled: self.sampled.iter().any(|sampled| sampled.load(Relaxed)),
            keys,
            error: now.most_unseen() + before.most_unseen(),
        }
    }

    /// Keys that came near their limit or over it, so many of them at the most.
    pub(crate) fn candidates(&self, most: usize) -> Vec<Key<'static>> {
        let mut found: Vec<(u64, Key<'static>)> = {
            let pair = self.pair.lock();
            let sketches = [&pair.now.near, &pair.now.denied, &pair.before.near, &pair.before.denied];
            let counted =
                |sketch: &&Sketch| sketch.counted().map(|(key, count)| (count.most, key.clone())).collect::<Vec<_>>();
            sketches.iter().flat_map(counted).collect()
        };
        let mut seen = HashSet::with_capacity(found.len());
        found.retain(|(_, key)| seen.insert(key.clone()));
        found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        found.truncate(most);
        found.into_iter().map(|(_, key)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

    use tidegate::Key;

    use super::{EACH, Hits, MAX_KEY_BYTES, Notable, SAMPLED};

    fn key(text: &str) -> Key<'_> {
        Key::new(text).unwrap()
    }

    #[test]
    fn who_is_denied_most_comes_first_and_is_forgotten_after_two_spans() {
        let (hits, budget) = (Hits::default(), AtomicIsize::new(0));
        for (who, times) in [("a", 3), ("b", 5), ("c", 1)] {
            (0..times).for_each(|_| hits.note(Notable::Denied, &key(who), &budget));
        }
        hits.note(Notable::Near, &key("d"), &budget);
        hits.note(Notable::Ordinary, &key("e"), &budget);
        let shown = hits.hardest(2);
        let names: Vec<_> = shown.keys.iter().map(|(key, count)| (key.as_bytes().to_vec(), count.most)).collect();
        assert_eq!(names, [(b"b".to_vec(), 5), (b"a".to_vec(), 3)]);
        assert_eq!((shown.denials, shown.error, shown.sampled), (9, 0, false));
        assert_eq!(hits.candidates(9).len(), 4, "all but the ordinary one");
        hits.tick(true, &budget);
        hits.note(Notable::Denied, &key("b"), &budget);
        assert_eq!(hits.hardest(1).keys[0].1.most, 6, "both spans count");
        hits.tick(true, &budget);
        assert_eq!(hits.hardest(9).denials, 1);
        hits.tick(true, &budget);
        assert_eq!((hits.hardest(9).keys.len(), budget.load(Relaxed)), (0, 0));
    }

    #[test]
    fn a_flood_is_sampled_whatever_its_rhythm() {
        let names: Vec<String> = (0..24).map(|i| format!("key {i}")).collect();
        for of in [1, 2, 3, 16, 24] {
            let (hits, budget) = (Hits::default(), AtomicIsize::new(0));
            let each = 100 * SAMPLED;
            (0..EACH).for_each(|_| hits.note(Notable::Denied, &key("before"), &budget));
            for i in 0..of * each {
                hits.note(Notable::Denied, &key(&names[(i % of) as usize]), &budget);
            }
            let shown = hits.hardest(1 + names.len());
            assert_eq!((shown.denials, shown.sampled), (u64::from(EACH + of * each), true));
            assert_eq!(shown.keys.len(), 1 + of as usize);
            for (key, count) in &shown.keys[1..] {
                assert!(count.most.abs_diff(each.into()) <= u64::from(each) / 5, "{key:?} of {of}: {count:?}");
            }
            hits.tick(false, &budget);
            hits.note(Notable::Denied, &key("before"), &budget);
            assert_eq!(hits.hardest(1).keys[0].1.most, u64::from(EACH) + 1, "each again in the next second");
            hits.tick(true, &budget);
            assert!(hits.hardest(1).sampled, "as long as what was estimated counts");
            hits.tick(true, &budget);
            assert!(!hits.hardest(1).sampled);
        }
    }

    #[test]
    fn beyond_the_budget_no_further_key_is_held() {
        let (hits, budget) = (Hits::default(), AtomicIsize::new(MAX_KEY_BYTES + 1));
        hits.note(Notable::Denied, &key("a"), &budget);
        let shown = hits.hardest(1);
        assert_eq!((shown.denials, shown.keys.len()), (1, 0));
    }
}
