//! [`Chunk`]: a sequence of closed entries, encoded as bytes.
//!
//! An entry is a variable-length integer of `2 * delta + (units != 1)`, where `delta` is the time since the previous
//! entry. If the lowest bit is set, another integer with the units follows. An integer has seven bits per byte, lowest
//! bits first, and the highest bit is set on all bytes but the last. At a thousand requests a minute an entry has three
//! bytes. The time of the first entry is stored separately and its delta is not read, so a chunk can lose its first
//! entries without being encoded again.

#![expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]

/// The longest encoded entry: ten bytes of time, eight of units up to 9 * 10^15.
pub(super) const MAX_ENTRY: usize = 18;

/// Entries, oldest first. There is always at least one entry.
#[derive(Clone, Copy)]
pub(super) struct Chunk<'a> {
    first: i64,
    bytes: &'a [u8],
}

pub(super) struct EncodedEntry {
    delta: u64,
    units: u64,
}

/// The position at which a chunk is divided by time.
pub(super) struct Split {
    /// Units before the position.
    pub(super) units: u64,
    /// The first byte after the position.
    pub(super) offset: usize,
    /// The time of the entry at the position.
    pub(super) time: i64,
}

/// A chunk from which units were removed.
pub(super) struct Reduced {
    pub(super) first: i64,
    pub(super) bytes: Vec<u8>,
    pub(super) taken: u64,
}

impl EncodedEntry {
    #[inline]
    pub(super) fn encode(delta: u64, units: u64) -> ([u8; MAX_ENTRY], usize) {
        let mut bytes = [0; MAX_ENTRY];
        let mut len = 0;
        let mut put = |mut value: u64| {
            while value > 0x7f {
                bytes[len] = value as u8 | 0x80;
                value >>= 7;
                len += 1;
            }
            bytes[len] = value as u8;
            len += 1;
        };
        put(delta << 1 | u64::from(units != 1));
        if units != 1 {
            put(units);
        }
        (bytes, len)
    }

    /// Reads the entry at `at` and moves `at` to the next entry.
    #[inline]
    fn decode(bytes: &[u8], at: &mut usize) -> Self {
        let head = read(bytes, at);
        let units = if head & 1 == 0 { 1 } else { read(bytes, at) };
        Self { delta: head >> 1, units }
    }
}

#[inline]
fn read(bytes: &[u8], at: &mut usize) -> u64 {
    // Most integers have at most three bytes, and the last byte is the first one below 0x80.
    if let Some((four, _)) = bytes.get(*at..).and_then(<[u8]>::split_first_chunk) {
        let word = u32::from_le_bytes(*four);
        let ends = !word & 0x0080_8080;
        if ends != 0 {
            let bits = ends.trailing_zeros() + 1;
            let word = word & (u32::MAX >> (32 - bits));
            *at += (bits / 8) as usize;
            return (word & 0x7f | word >> 1 & 0x3f80 | word >> 2 & 0x001f_c000).into();
        }
    }
    let mut value = 0;
    let mut shift = 0;
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
        shift += 7;
    }
}

impl<'a> Chunk<'a> {
    #[inline]
    pub(super) fn new(first: i64, bytes: &'a [u8]) -> Self {
        Self { first, bytes }
    }

    /// The entries as times and units.
    pub(super) fn entries(self) -> impl Iterator<Item = (i64, u64)> + 'a {
        let (mut at, mut time) = (0, self.first);
        std::iter::from_fn(move || {
            let begins = at;
            (at < self.bytes.len()).then(|| {
                let entry = EncodedEntry::decode(self.bytes, &mut at);
                if begins > 0 {
                    time += entry.delta.cast_signed();
                }
                (time, entry.units)
            })
        })
    }

    /// The time of the first entry.
    #[inline]
    pub(super) fn first(self) -> i64 {
        self.first
    }

    /// The entries as times and units, decoded.
    pub(super) fn to_vec(self) -> Vec<(i64, u64)> {
        // Most entries have two bytes or more.
        let mut entries = Vec::with_capacity(1 + self.bytes.len() / 2);
        entries.extend(self.entries());
        entries
    }

    /// Finds the position after the last entry dated `horizon` or earlier. If no later entry exists, the returned time is
    /// that of the last entry.
    #[inline]
    pub(super) fn split_after(self, horizon: i64) -> Split {
        let (mut offset, mut at, mut time, mut units) = (0, 0, self.first, 0);
        while at < self.bytes.len() {
            let begins = at;
            let entry = EncodedEntry::decode(self.bytes, &mut at);
            if begins > 0 {
                time += entry.delta.cast_signed();
            }
            if time > horizon {
                return Split { units, offset: begins, time };
            }
            units += entry.units;
            offset = at;
        }
        Split { units, offset, time }
    }

    /// The time of the entry that contains the `nth` unit, counted from 1, or of the last entry if there are fewer units.
    #[inline]
    pub(super) fn time_of_unit(self, nth: u64) -> i64 {
        let (mut at, mut time, mut units) = (0, self.first, 0);
        while at < self.bytes.len() {
            let begins = at;
            let entry = EncodedEntry::decode(self.bytes, &mut at);
            if begins > 0 {
                time += entry.delta.cast_signed();
            }
            units += entry.units;
            if units >= nth {
                break;
            }
        }
        time
    }

    /// The chunk without these units at exactly these times, which grow, as far as it has them; `None` if it has none of
    /// them. It is never longer than before.
    pub(super) fn without(self, removals: &[(i64, u64)]) -> Option<Reduced> {
        let mut entries = self.to_vec();
        let (mut taken, mut index) = (0, 0);
        for (time, units) in removals {
            let rest = &mut entries[index..];
            let Ok(found) = rest.binary_search_by_key(time, |entry| entry.0) else { continue };
            let less = rest[found].1.min(*units);
            rest[found].1 -= less;
            taken += less;
            index += found;
        }
        if taken == 0 {
            return None;
        }
        entries.retain(|entry| entry.1 > 0);
        let first = entries.first().map_or(self.first, |entry| entry.0);
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut before = first;
        for (time, units) in entries {
            let (code, width) = EncodedEntry::encode((time - before).cast_unsigned(), units);
            bytes.extend_from_slice(&code[..width]);
            before = time;
        }
        Some(Reduced { first, bytes, taken })
    }
}
