//! The cost of the loop and of reading the key, which every other row includes.

use std::hint::black_box;

use super::ContenderEntry;

pub(super) const ENTRY: ContenderEntry =
    ContenderEntry { project: "harness", name: "reading the key", like: None, build: |_| Box::new(read_key) };

fn read_key(key: &String) -> bool {
    let bytes = key.as_bytes();
    black_box(bytes[0]) | black_box(bytes[bytes.len() - 1]) != 0
}
