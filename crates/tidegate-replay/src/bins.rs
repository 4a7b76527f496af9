//! [`Bins`]: counts over time in a bounded number of bins.
//!
//! Bins are as short as possible. If there would be too many, neighbours are merged. Each length divides the next, so a bin is never
//! split.

const MS: u64 = 1_000;
const S: u64 = 1_000 * MS;
const M: u64 = 60 * S;
const H: u64 = 60 * M;
const D: u64 = 24 * H;

/// Lengths of bins: multiples of a unit. Each length divides the next.
const LENGTHS: [(u64, &[u64]); 5] = [
    (MS, &[1, 2, 10, 20, 100, 200]),
    (S, &[1, 2, 10, 30]),
    (M, &[1, 2, 10, 30]),
    (H, &[1, 2, 6, 12]),
    (D, &[1, 7, 28, 364, 3_640, 36_400, 364_000, 3_640_000]),
];

/// Returns the lengths of bins from `length_us` on, in microseconds.
fn lengths_from(length_us: u64) -> impl Iterator<Item = u64> {
    let lengths = LENGTHS.into_iter().flat_map(|(unit, factors)| factors.iter().map(move |factor| unit * factor));
    lengths.skip_while(move |length| *length < length_us)
}

/// Rows of counts, one for each bin.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    limit: usize,
    columns: usize,
    length_us: u64,
    /// Number of the first bin, counted from the epoch.
    first: u64,
    cells: Vec<u64>,
    /// For each column, whether merged bins are added. Otherwise the maximum is kept.
    adds: Vec<bool>,
}

impl Bins {
    /// Creates at most `limit` bins with one column for each element of `adds`.
    pub(crate) fn new(limit: usize, adds: Vec<bool>) -> Self {
        Self { limit, columns: adds.len(), length_us: MS, first: 0, cells: Vec::new(), adds }
    }

    /// Returns the length of a bin.
    pub(crate) fn length_us(&self) -> u64 {
        self.length_us
    }

    /// Returns the start of the first bin.
    pub(crate) fn start_us(&self) -> u64 {
        self.first * self.length_us
    }

    /// Returns the counts of the bin that contains a time.
    #[inline]
    pub(crate) fn at(&mut self, time_us: u64) -> &mut [u64] {
        let mut bin = time_us / self.length_us;
        let len = (self.cells.len() / self.columns) as u64;
        if bin < self.first || bin >= self.first + len {
            self.make_room(time_us);
            bin = time_us / self.length_us;
        }
        let at = usize::try_from(bin - self.first).unwrap_or(usize::MAX) * self.columns;
        &mut self.cells[at..at + self.columns]
    }

    #[cold]
    fn make_room(&mut self, time_us: u64) {
        if self.cells.is_empty() {
            self.first = time_us / self.length_us;
        }
        loop {
            let bin = time_us / self.length_us;
            let bins = (self.cells.len() / self.columns) as u64;
            let (first, end) = (self.first.min(bin), (self.first + bins).max(bin + 1));
            if let Ok(bins) = usize::try_from(end - first)
                && bins <= self.limit
            {
                let before = usize::try_from(self.first - first).unwrap_or(0) * self.columns;
                self.cells.splice(..0, std::iter::repeat_n(0, before));
                self.cells.resize(bins * self.columns, 0);
                self.first = first;
                return;
            }
            self.merge();
        }
    }

    /// Merges neighbouring bins to the next length.
    fn merge(&mut self) {
        let length_us = lengths_from(self.length_us + 1).next().unwrap_or(u64::MAX);
        let factor = length_us / self.length_us;
        let first = self.first / factor;
        let mut cells: Vec<u64> = Vec::new();
        for (row, bin) in self.cells.chunks(self.columns).zip(self.first..) {
            let at = usize::try_from(bin / factor - first).unwrap_or(0) * self.columns;
            if at == cells.len() {
                cells.extend_from_slice(row);
                continue;
            }
            for ((cell, more), adds) in cells[at..].iter_mut().zip(row).zip(&self.adds) {
                *cell = if *adds { cell.saturating_add(*more) } else { (*cell).max(*more) };
            }
        }
        (self.length_us, self.first, self.cells) = (length_us, first, cells);
    }

    /// Merges bins until they have at least this length, because the times are not known any finer.
    pub(crate) fn no_finer_than(&mut self, length_us: u64) {
        while self.length_us < length_us && lengths_from(length_us).next().is_some() {
            self.merge();
        }
    }

    /// Returns one column over all bins.
    pub(crate) fn column(&self, number: usize) -> Vec<u64> {
        self.cells.iter().skip(number).step_by(self.columns).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Bins, lengths_from};

    #[test]
    fn each_length_divides_the_next_and_the_last_covers_all_times() {
        let lengths: Vec<u64> = lengths_from(0).collect();
        assert!(lengths.windows(2).all(|pair| pair[1] % pair[0] == 0 && pair[1] > pair[0]));
        assert!(lengths[lengths.len() - 1] > 9_000_000_000_000_000);
    }

    #[test]
    fn bins_are_no_finer_than_the_times() {
        let mut bins = Bins::new(40, vec![true]);
        for time in [5_000_000, 5_000_000, 6_000_000] {
            bins.at(time)[0] += 1;
        }
        bins.no_finer_than(1_000_000);
        assert_eq!((bins.start_us(), bins.length_us(), bins.column(0)), (5_000_000, 1_000_000, vec![2, 1]));
    }

    proptest! {
        #[test]
        fn every_time_is_counted_in_its_bin(
            times in prop::collection::vec(prop_oneof![0..5_000_000_u64, 0..9_000_000_000_000_000_u64, 1_700_000_000_000_000..1_700_000_900_000_000_u64], 1..60),
            limit in 2_usize..40,
        ) {
            let mut bins = Bins::new(limit, vec![true, false]);
            for (time, i) in times.iter().zip(1..) {
                let row = bins.at(*time);
                row[0] += 1;
                row[1] = row[1].max(i);
            }
            let (counts, maxima) = (bins.column(0), bins.column(1));
            prop_assert!(counts.len() <= limit);
            for (bin, (count, max)) in counts.iter().zip(&maxima).enumerate() {
                let from = bins.start_us() + bin as u64 * bins.length_us();
                let within = |time: u64| (from..from + bins.length_us()).contains(&time);
                prop_assert_eq!(*count, times.iter().filter(|time| within(**time)).count() as u64);
                let last = times.iter().zip(1..).filter(|(time, _)| within(**time)).map(|(_, i)| i).max();
                prop_assert_eq!(*max, last.unwrap_or(0));
            }
            prop_assert_eq!(counts.iter().sum::<u64>(), times.len() as u64);
        }
    }
}
