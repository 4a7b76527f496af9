//! [`ClientNumbers`]: numbers the clients in the order of their first requests.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

/// Keys of all clients.
#[derive(Debug, Default)]
pub(crate) struct ClientNumbers {
    hasher: DefaultHashBuilder,
    numbers: HashTable<u32>,
    keys: Keys,
}

/// All keys in one allocation, by number. A key starts where the previous one ends.
#[derive(Debug, Default)]
struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    #[inline]
    fn get(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |previous| self.ends[previous]);
        &self.bytes[start..self.ends[number]]
    }
}

impl ClientNumbers {
    /// Returns the number of clients.
    pub(crate) fn len(&self) -> usize {
        self.keys.ends.len()
    }

    /// Returns the number of a client, which may be new.
    #[inline]
    pub(crate) fn number(&mut self, key: &[u8]) -> u32 {
        let Self { hasher, numbers, keys } = self;
        let is_same = |number: &u32| keys.get(*number) == key;
        match numbers.entry(hasher.hash_one(key), is_same, |number| hasher.hash_one(keys.get(*number))) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let number = u32::try_from(keys.ends.len()).expect("fewer than four billion clients");
                new.insert(number);
                keys.bytes.extend_from_slice(key);
                keys.ends.push(keys.bytes.len());
                number
            }
        }
    }

    /// Returns the number of a client, unless it is new.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        self.numbers.find(self.hasher.hash_one(key), |number| self.keys.get(*number) == key).copied()
    }

    /// Returns the key of a client.
    pub(crate) fn key(&self, number: u32) -> &[u8] {
        self.keys.get(number)
    }
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
                prop_assert_eq!(clients.key(*number), key);
            }
        }
    }
}
