//! [`Clients`]: who there was, and what each of them asked for and got.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

/// All clients, by number in the order of their first requests.
///
/// What is counted of one lies side by side: requests, units, the most units in a window (one for each window), and denials
/// (one for each policy).
#[derive(Debug)]
pub(super) struct Clients {
    hasher: DefaultHashBuilder,
    numbers: HashTable<u32>,
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    cells: Vec<u64>,
    windows: usize,
    policies: usize,
}

/// What is counted of one client.
#[derive(Debug)]
pub(super) struct Tally<'a> {
    cells: &'a mut [u64],
    windows: usize,
}

impl Clients {
    pub(super) fn new(windows: usize, policies: usize) -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            numbers: HashTable::new(),
            keys: Vec::new(),
            key_ends: Vec::new(),
            cells: Vec::new(),
            windows,
            policies,
        }
    }

    fn columns(&self) -> usize {
        2 + self.windows + self.policies
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.key_ends.len()
    }

    /// The number of a client, which may be new.
    #[inline]
    pub(super) fn number(&mut self, key: &[u8]) -> u32 {
        let Self { hasher, numbers, keys, key_ends, .. } = self;
        let key_of = |number: u32| key_at(keys, key_ends, number);
        let hash = hasher.hash_one(key);
        if let Some(number) = numbers.find(hash, |number| key_of(*number) == key) {
            return *number;
        }
        let number = u32::try_from(key_ends.len()).expect("fewer than four billion clients");
        numbers.insert_unique(hash, number, |number| hasher.hash_one(key_of(*number)));
        self.keys.extend_from_slice(key);
        self.key_ends.push(self.keys.len());
        self.cells.resize(self.cells.len() + self.columns(), 0);
        number
    }

    /// What is counted of a client.
    #[inline]
    pub(super) fn tally(&mut self, number: u32) -> Tally<'_> {
        let columns = self.columns();
        let at = number as usize * columns;
        Tally { cells: &mut self.cells[at..at + columns], windows: self.windows }
    }

    pub(super) fn key(&self, number: u32) -> &[u8] {
        key_at(&self.keys, &self.key_ends, number)
    }

    /// A count of every client, in their order.
    fn column(&self, column: usize) -> impl Iterator<Item = u64> + '_ {
        self.cells.iter().skip(column).step_by(self.columns()).copied()
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = u64> + '_ {
        self.column(0)
    }

    pub(super) fn peaks(&self, window: usize) -> impl Iterator<Item = u64> + '_ {
        self.column(2 + window)
    }

    pub(super) fn denied(&self, policy: usize) -> impl Iterator<Item = u64> + '_ {
        self.column(2 + self.windows + policy)
    }
}

fn key_at<'a>(keys: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let from = if number == 0 { 0 } else { ends[number - 1] };
    &keys[from..ends[number]]
}

impl Tally<'_> {
    pub(super) fn requests(&mut self) -> &mut u64 {
        &mut self.cells[0]
    }

    pub(super) fn units(&mut self) -> &mut u64 {
        &mut self.cells[1]
    }

    pub(super) fn peak(&mut self, window: usize) -> &mut u64 {
        &mut self.cells[2 + window]
    }

    pub(super) fn denied(&mut self, policy: usize) -> &mut u64 {
        &mut self.cells[2 + self.windows + policy]
    }
}
