//! [`Sketch`]: the most frequent keys of a stream in bounded memory (Space-Saving by Metwally, Agrawal and El Abbadi).
//!
//! It has a fixed number of counters. A key without a counter takes over the smallest one with its count. So a count is never too
//! low, and it is too high by at most its `error`. The error is at most the sum of all counts divided by the number of counters.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use tidegate::Key;

/// Number of counters of a sketch.
pub(crate) const COUNTERS: usize = 128;

/// Counts of the most frequent keys. `D` are details of a key since it got its counter.
#[derive(Debug, Default)]
pub(crate) struct Sketch<D = ()> {
    /// Indexes into the lists below, by key.
    indexes: HashTable<usize>,
    hashes: RandomState,
    keys: Vec<Key<'static>>,
    counts: Vec<Count>,
    details: Vec<D>,
}

/// Bounds for the count of a key: at most `max`, and at least `max - error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    pub(crate) max: u64,
    pub(crate) error: u64,
}

impl<D: Default> Sketch<D> {
    /// Counts a key. A key without a counter is counted only if `may_add` is set. Returns the details of the key if it has a counter
    /// now, and by how many bytes the keys have grown.
    pub(crate) fn count(&mut self, key: &Key<'_>, weight: u64, may_add: bool) -> (Option<&mut D>, isize) {
        let hash = self.hashes.hash_one(key);
        if let Some(index) = self.indexes.find(hash, |index| self.keys[*index] == *key) {
            self.counts[*index].max += weight;
            return (Some(&mut self.details[*index]), 0);
        }
        if !may_add {
            return (None, 0);
        }
        let Self { indexes, hashes, keys, counts, details } = self;
        let own = key.clone().into_owned();
        let len = own.as_bytes().len().cast_signed();
        let (index, grown) = if keys.len() < COUNTERS {
            keys.push(own);
            counts.push(Count { max: weight, error: 0 });
            details.push(D::default());
            (keys.len() - 1, len)
        } else {
            let least = smallest(counts);
            if let Ok(entry) = indexes.find_entry(hashes.hash_one(&keys[least]), |index| *index == least) {
                entry.remove();
            }
            let before = std::mem::replace(&mut keys[least], own);
            counts[least] = Count { max: counts[least].max + weight, error: counts[least].max };
            details[least] = D::default();
            (least, len - before.as_bytes().len().cast_signed())
        };
        indexes.insert_unique(hash, index, |index| hashes.hash_one(&keys[*index]));
        (Some(&mut details[index]), grown)
    }

    /// Returns the count and the details of a key that has a counter.
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<(Count, &D)> {
        let index = *self.indexes.find(self.hashes.hash_one(key), |index| self.keys[*index] == *key)?;
        Some((self.counts[index], &self.details[index]))
    }

    /// Returns the keys with a counter, and their counts.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (&Key<'static>, &Count)> {
        self.keys.iter().zip(&self.counts)
    }

    /// Returns the bounds for the count of any key.
    pub(crate) fn of(&self, key: &Key<'_>) -> Count {
        let max = self.max_unseen();
        self.find(key).map_or(Count { max, error: max }, |(count, _)| count)
    }

    /// Returns the maximum count of a key without a counter.
    pub(crate) fn max_unseen(&self) -> u64 {
        if self.keys.len() < COUNTERS { 0 } else { self.counts[smallest(&self.counts)].max }
    }

    pub(crate) fn keys(&self) -> &[Key<'static>] {
        &self.keys
    }

    /// Returns the bytes of all keys with a counter.
    pub(crate) fn key_bytes(&self) -> usize {
        self.keys.iter().map(|key| key.as_bytes().len()).sum()
    }
}

fn smallest(counts: &[Count]) -> usize {
    let least = counts.iter().enumerate().min_by_key(|(_, count)| count.max);
    least.map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tidegate::Key;

    use super::{COUNTERS, Count, Sketch};

    /// A stream in which key 1 is half of the keys, 2 a quarter, and so on, among keys that occur once.
    fn stream() -> impl Iterator<Item = u64> {
        (1..40_000_u64).flat_map(|i| [u64::from(i.trailing_zeros()) + 1, 1_000_000 + i])
    }

    #[test]
    fn counts_are_never_too_low_and_too_high_by_at_most_their_error() {
        let (mut sketch, mut exact, mut all) = (Sketch::<()>::default(), HashMap::<u64, u64>::new(), 0);
        for number in stream() {
            let text = number.to_string();
            sketch.count(&Key::new(&text).unwrap(), 1, true);
            *exact.entry(number).or_default() += 1;
            all += 1;
        }
        assert_eq!(sketch.keys().len(), COUNTERS);
        for (number, exact) in &exact {
            let count = sketch.of(&Key::new(&number.to_string()).unwrap());
            assert!(count.max >= *exact && count.max - count.error <= *exact, "{number}: {exact} is no {count:?}");
            assert!(count.error <= all / COUNTERS as u64, "{count:?} of {all}");
        }
        let mut ranked: Vec<_> = sketch.keys().iter().map(|key| (sketch.of(key).max, key.clone())).collect();
        ranked.sort_by_key(|(max, _)| std::cmp::Reverse(*max));
        assert_eq!(ranked[0].1, Key::new("1").unwrap(), "the most frequent key is found");
    }

    #[test]
    fn few_keys_are_counted_exactly_and_bytes_are_returned() {
        let mut sketch = Sketch::<u64>::default();
        let grown: isize = ["a", "bcd", "a"].iter().map(|key| sketch.count(&Key::new(key).unwrap(), 2, true).1).sum();
        assert_eq!(sketch.of(&Key::new("a").unwrap()), Count { max: 4, error: 0 });
        assert_eq!(sketch.of(&Key::new("z").unwrap()), Count::default());
        assert_eq!((grown, sketch.key_bytes()), (4, 4));
        for number in 0..10_000 {
            sketch.count(&Key::new(&format!("{number:08}")).unwrap(), 1, true);
        }
        assert!(sketch.key_bytes() <= COUNTERS * 8);
    }

    #[test]
    fn a_key_that_takes_over_a_counter_does_not_inherit_its_details() {
        let mut sketch = Sketch::<u64>::default();
        for number in 0..=COUNTERS as u64 {
            let text = number.to_string();
            let (details, _) = sketch.count(&Key::new(&text).unwrap(), 1, true);
            *details.expect("a counter") += 1 + number;
        }
        let last = COUNTERS.to_string();
        let (count, details) = sketch.find(&Key::new(&last).unwrap()).expect("a counter");
        assert_eq!((count, *details), (Count { max: 2, error: 1 }, 1 + COUNTERS as u64));
        assert!(sketch.count(&Key::new("new").unwrap(), 1, false).0.is_none());
    }
}
