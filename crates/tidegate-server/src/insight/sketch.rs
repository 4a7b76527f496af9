//! [`Sketch`]: who comes most often, out of any number, in bounded memory (Space-Saving by Metwally, Agrawal and El Abbadi).
//!
//! It has a fixed number of counters. Who has none takes over the smallest, with its count: so a count is never too low, and too
//! high by no more than its `error`, which is never more than all that was counted divided by the number of counters.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use tidegate::Key;

/// How many counters a sketch has.
pub(crate) const COUNTERS: usize = 128;

/// Counts of the keys that come most often.
#[derive(Debug, Default)]
pub(crate) struct Sketch {
    /// Places in the two lists below, by key.
    places: HashTable<usize>,
    hashes: RandomState,
    keys: Vec<Key<'static>>,
    counts: Vec<Count>,
}

/// What is known of how often a key came: at most `most`, and no less than that without `error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    pub(crate) most: u64,
    pub(crate) error: u64,
}

impl Sketch {
    /// Counts a key, one that has no counter only if `may_hold`; by how many bytes the keys that are held have grown.
    pub(crate) fn count(&mut self, key: &Key<'_>, weight: u64, may_hold: bool) -> isize {
        let hash = self.hashes.hash_one(key);
        if let Some(place) = self.places.find(hash, |place| self.keys[*place] == *key) {
            self.counts[*place].most += weight;
            return 0;
        }
        if !may_hold {
            return 0;
        }
        let Self { places, hashes, keys, counts } = self;
        let own = key.clone().into_owned();
        let len = own.as_bytes().len().cast_signed();
        let (place, grown) = if keys.len() < COUNTERS {
            keys.push(own);
            counts.push(Count { most: weight, error: 0 });
            (keys.len() - 1, len)
        } else {
            let least = smallest(counts);
            if let Ok(entry) = places.find_entry(hashes.hash_one(&keys[least]), |place| *place == least) {
                entry.remove();
            }
            let before = std::mem::replace(&mut keys[least], own);
            counts[least] = Count { most: counts[least].most + weight, error: counts[least].most };
            (least, len - before.as_bytes().len().cast_signed())
        };
        places.insert_unique(hash, place, |place| hashes.hash_one(&keys[*place]));
        grown
    }

    /// Whether a key has a counter.
    pub(crate) fn has(&self, key: &Key<'_>) -> bool {
        self.places.find(self.hashes.hash_one(key), |place| self.keys[*place] == *key).is_some()
    }

    /// The keys that have one, and what is known of them.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (&Key<'static>, &Count)> {
        self.keys.iter().zip(&self.counts)
    }

    /// What is known of a key, whether it has a counter or not.
    pub(crate) fn of(&self, key: &Key<'_>) -> Count {
        match self.places.find(self.hashes.hash_one(key), |place| self.keys[*place] == *key) {
            Some(place) => self.counts[*place],
            None => {
                let most = self.most_unseen();
                Count { most, error: most }
            }
        }
    }

    /// The most that a key without a counter can have come.
    pub(crate) fn most_unseen(&self) -> u64 {
        if self.keys.len() < COUNTERS { 0 } else { self.counts[smallest(&self.counts)].most }
    }

    pub(crate) fn keys(&self) -> &[Key<'static>] {
        &self.keys
    }

    /// Bytes of the keys that are held.
    pub(crate) fn key_bytes(&self) -> usize {
        self.keys.iter().map(|key| key.as_bytes().len()).sum()
    }
}

fn smallest(counts: &[Count]) -> usize {
    let least = counts.iter().enumerate().min_by_key(|(_, count)| count.most);
    least.map_or(0, |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tidegate::Key;

    use super::{COUNTERS, Count, Sketch};

    /// A stream in which key 1 comes half of the time, 2 a quarter, and so on, among strangers that come once each.
    fn stream() -> impl Iterator<Item = u64> {
        (1..40_000_u64).flat_map(|i| [u64::from(i.trailing_zeros()) + 1, 1_000_000 + i])
    }

    #[test]
    fn counts_are_never_too_low_and_too_high_by_no_more_than_they_say() {
        let (mut sketch, mut exact, mut all) = (Sketch::default(), HashMap::<u64, u64>::new(), 0);
        for number in stream() {
            let text = number.to_string();
            sketch.count(&Key::new(&text).unwrap(), 1, true);
            *exact.entry(number).or_default() += 1;
            all += 1;
        }
        assert_eq!(sketch.keys().len(), COUNTERS);
        for (number, exact) in &exact {
            let count = sketch.of(&Key::new(&number.to_string()).unwrap());
            assert!(count.most >= *exact && count.most - count.error <= *exact, "{number}: {exact} is no {count:?}");
            assert!(count.error <= all / COUNTERS as u64, "{count:?} of {all}");
        }
        let mut ranked: Vec<_> = sketch.keys().iter().map(|key| (sketch.of(key).most, key.clone())).collect();
        ranked.sort_by_key(|(most, _)| std::cmp::Reverse(*most));
        assert_eq!(ranked[0].1, Key::new("1").unwrap(), "who comes most often is found among strangers");
    }

    #[test]
    fn few_keys_are_counted_exactly_and_bytes_are_told() {
        let mut sketch = Sketch::default();
        let grown: isize = ["a", "bcd", "a"].iter().map(|key| sketch.count(&Key::new(key).unwrap(), 2, true)).sum();
        assert_eq!(sketch.of(&Key::new("a").unwrap()), Count { most: 4, error: 0 });
        assert_eq!(sketch.of(&Key::new("z").unwrap()), Count::default());
        assert_eq!((grown, sketch.key_bytes()), (4, 4));
        for number in 0..10_000 {
            sketch.count(&Key::new(&format!("{number:08}")).unwrap(), 1, true);
        }
        assert!(sketch.key_bytes() <= COUNTERS * 8);
    }
}
