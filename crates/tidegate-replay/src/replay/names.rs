//! [`Names`]: a number for each client, in the order of their first requests.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

/// All clients' keys.
///
/// A short key lies beside its neighbours in a table of words, so that knowing it again costs one look at memory that is far away.
#[derive(Debug, Default)]
pub(super) struct Names {
    hasher: DefaultHashBuilder,
    numbers: HashTable<u32>,
    words: Vec<Words>,
    long_keys: Vec<u8>,
}

/// A key's bytes and then its length, or where it is among the long ones.
type Words = [u64; 3];

/// The longest key that fits into words.
const SHORT: usize = size_of::<Words>() - 1;

/// What stands in the last word of a long key; no length is that.
const LONG: u64 = 0xff << 56;

impl Names {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// The number of a client, which may be new.
    #[inline]
    pub(super) fn number(&mut self, key: &[u8]) -> u32 {
        let Self { hasher, numbers, words, long_keys } = self;
        let found = match short(key) {
            Some(wanted) => numbers.find(hasher.hash_one(wanted), |number| words[*number as usize] == wanted),
            None => numbers.find(hasher.hash_one(key), |number| long(&words[*number as usize], long_keys) == Some(key)),
        };
        match found {
            Some(number) => *number,
            None => self.insert(key),
        }
    }

    #[cold]
    fn insert(&mut self, key: &[u8]) -> u32 {
        let number = u32::try_from(self.len()).expect("fewer than four billion clients");
        self.words.push(short(key).unwrap_or_else(|| {
            self.long_keys.extend_from_slice(key);
            [(self.long_keys.len() - key.len()) as u64, key.len() as u64, LONG]
        }));
        let Self { hasher, numbers, words, long_keys } = self;
        let hash = |number: &u32| {
            let words = &words[*number as usize];
            long(words, long_keys).map_or_else(|| hasher.hash_one(words), |key| hasher.hash_one(key))
        };
        numbers.insert_unique(hash(&number), number, hash);
        number
    }

    /// The key of a client.
    pub(super) fn key(&self, number: u32) -> Vec<u8> {
        let words = &self.words[number as usize];
        if let Some(key) = long(words, &self.long_keys) {
            return key.to_vec();
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes[..usize::from(bytes[SHORT])].to_vec()
    }
}

/// A short key as words.
#[inline]
fn short(key: &[u8]) -> Option<Words> {
    if key.len() > SHORT {
        return None;
    }
    let mut bytes = [0; size_of::<Words>()];
    bytes[..key.len()].copy_from_slice(key);
    bytes[SHORT] = u8::try_from(key.len()).unwrap_or(0);
    let word = |i: usize| u64::from_le_bytes(*bytes[8 * i..].first_chunk().expect("three words"));
    Some([word(0), word(1), word(2)])
}

/// The key that words tell the place of.
#[inline]
fn long<'a>(words: &Words, keys: &'a [u8]) -> Option<&'a [u8]> {
    let [at, len, LONG] = *words else { return None };
    let (at, len) = (usize::try_from(at).ok()?, usize::try_from(len).ok()?);
    keys.get(at..at + len)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::Names;

    proptest! {
        #[test]
        fn every_key_has_a_number_of_its_own_and_keeps_it(
            keys in prop::collection::vec(prop::collection::vec(0..3_u8, 1..40), 1..200),
        ) {
            let mut names = Names::default();
            let mut known: HashMap<Vec<u8>, u32> = HashMap::new();
            for key in &keys {
                let next = u32::try_from(known.len()).unwrap();
                prop_assert_eq!(names.number(key), *known.entry(key.clone()).or_insert(next));
            }
            prop_assert_eq!(names.len(), known.len());
            for (key, number) in &known {
                prop_assert_eq!(&names.key(*number), key);
            }
        }
    }
}
