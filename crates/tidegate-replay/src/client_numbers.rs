//! [`ClientNumbers`]: numbers the clients in the order of their first requests.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Keys of all clients.
///
/// A short key is packed into a table, so that a lookup costs one cache miss.
#[derive(Debug, Default)]
pub(crate) struct ClientNumbers {
    hasher: DefaultHashBuilder,
    numbers: HashTable<u32>,
    packed: Vec<PackedKey>,
    long_keys: Vec<u8>,
}

/// The bytes and the length of a short key, or the location of a long key.
type PackedKey = [u64; 3];

/// Length of the longest key that is packed.
const SHORT: usize = size_of::<PackedKey>() - 1;

/// The last word of a long key. No short key has this length.
const LONG: u64 = 0xff << 56;

impl ClientNumbers {
    /// Returns the number of clients.
    pub(crate) fn len(&self) -> usize {
        self.packed.len()
    }

    /// Returns the number of a client, which may be new.
    #[inline]
    pub(crate) fn number(&mut self, key: &[u8]) -> u32 {
        let Self { hasher, numbers, packed, long_keys } = self;
        let found = match short(key) {
            Some(wanted) => numbers.find(hasher.hash_one(wanted), |number| packed[*number as usize] == wanted),
            None => {
                numbers.find(hasher.hash_one(key), |number| long(&packed[*number as usize], long_keys) == Some(key))
            }
        };
        match found {
            Some(number) => *number,
            None => self.insert(key),
        }
    }

    #[cold]
    fn insert(&mut self, key: &[u8]) -> u32 {
        let number = u32::try_from(self.len()).expect("fewer than four billion clients");
        self.packed.push(short(key).unwrap_or_else(|| {
            self.long_keys.extend_from_slice(key);
            [(self.long_keys.len() - key.len()) as u64, key.len() as u64, LONG]
        }));
        let Self { hasher, numbers, packed, long_keys } = self;
        let hash = |number: &u32| {
            let packed = &packed[*number as usize];
            long(packed, long_keys).map_or_else(|| hasher.hash_one(packed), |key| hasher.hash_one(key))
        };
        numbers.insert_unique(hash(&number), number, hash);
        number
    }

    /// Returns the key of a client.
    pub(crate) fn key(&self, number: u32) -> Vec<u8> {
        let packed = &self.packed[number as usize];
        if let Some(key) = long(packed, &self.long_keys) {
            return key.to_vec();
        }
        let bytes: Vec<u8> = packed.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes[..usize::from(bytes[SHORT])].to_vec()
    }
}

/// Packs a short key.
#[inline]
fn short(key: &[u8]) -> Option<PackedKey> {
    if key.len() > SHORT {
        return None;
    }
    let mut bytes = [0; size_of::<PackedKey>()];
    bytes[..key.len()].copy_from_slice(key);
    bytes[SHORT] = u8::try_from(key.len()).unwrap_or(0);
    let word = |i: usize| u64::from_le_bytes(*bytes[8 * i..].first_chunk().expect("three words"));
    Some([word(0), word(1), word(2)])
}

/// Returns a long key.
#[inline]
fn long<'a>(packed: &PackedKey, keys: &'a [u8]) -> Option<&'a [u8]> {
    let [at, len, LONG] = *packed else { return None };
    let (at, len) = (usize::try_from(at).ok()?, usize::try_from(len).ok()?);
    keys.get(at..at + len)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::ClientNumbers;

    proptest! {
        #[test]
        fn every_key_has_its_own_permanent_number(
            keys in prop::collection::vec(prop::collection::vec(0..3_u8, 1..40), 1..200),
        ) {
            let mut clients = ClientNumbers::default();
            let mut known: HashMap<Vec<u8>, u32> = HashMap::new();
            for key in &keys {
                let next = u32::try_from(known.len()).unwrap();
                prop_assert_eq!(clients.number(key), *known.entry(key.clone()).or_insert(next));
            }
            prop_assert_eq!(clients.len(), known.len());
            for (key, number) in &known {
                prop_assert_eq!(&clients.key(*number), key);
            }
        }
    }
}
