//! [`Bins`]: counts over time in few bins, whatever the time turns out to be.
//!
//! Bins are as short as they can be: where there would be too many, neighbours become one. Lengths are those that a person would
//! choose, and each divides the next, so a bin never has to be cut.

/// Lengths of bins, in microseconds.
const LENGTHS: [u64; 26] = {
    const MS: u64 = 1_000;
    const S: u64 = 1_000_000;
    const M: u64 = 60 * S;
    const H: u64 = 60 * M;
    const D: u64 = 24 * H;
    [
        MS,
        2 * MS,
        10 * MS,
        20 * MS,
        100 * MS,
        200 * MS,
        S,
        2 * S,
        10 * S,
        30 * S,
        M,
        2 * M,
        10 * M,
        30 * M,
        H,
        2 * H,
        6 * H,
        12 * H,
        D,
        7 * D,
        28 * D,
        364 * D,
        3_640 * D,
        36_400 * D,
        364_000 * D,
        3_640_000 * D,
    ]
};

/// Lengths that a person would choose, from this one on; each divides the next.
pub(crate) fn lengths_from(length_us: u64) -> impl Iterator<Item = u64> {
    LENGTHS.into_iter().skip_while(move |length| *length < length_us)
}

/// Rows of counts, one for each bin of time.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    most: usize,
    columns: usize,
    length: usize,
    /// The number of the first bin, counted from the epoch.
    first: u64,
    cells: Vec<u64>,
    /// For each column: whether bins are added up when they become one; else the larger one stays.
    adds: Vec<bool>,
}

impl Bins {
    /// At most `most` bins of so many counts. `adds` says which are added up and which are maxima.
    pub(crate) fn new(most: usize, adds: Vec<bool>) -> Self {
        Self { most, columns: adds.len(), length: 0, first: 0, cells: Vec::new(), adds }
    }

    /// How long a bin is.
    pub(crate) fn length_us(&self) -> u64 {
        LENGTHS[self.length]
    }

    /// Where the first bin begins.
    pub(crate) fn start_us(&self) -> u64 {
        self.first * self.length_us()
    }

    /// The counts of the bin that a time is in.
    #[inline]
    pub(crate) fn at(&mut self, time_us: u64) -> &mut [u64] {
        let mut bin = time_us / self.length_us();
        let len = (self.cells.len() / self.columns) as u64;
        if bin < self.first || bin >= self.first + len {
            self.make_room(time_us);
            bin = time_us / self.length_us();
        }
        let at = usize::try_from(bin - self.first).unwrap_or(usize::MAX) * self.columns;
        &mut self.cells[at..at + self.columns]
    }

    #[cold]
    fn make_room(&mut self, time_us: u64) {
        if self.cells.is_empty() {
            self.first = time_us / self.length_us();
        }
        loop {
            let bin = time_us / self.length_us();
            let bins = (self.cells.len() / self.columns) as u64;
            let (first, end) = (self.first.min(bin), (self.first + bins).max(bin + 1));
            if let Ok(bins) = usize::try_from(end - first)
                && bins <= self.most
            {
                let before = usize::try_from(self.first - first).unwrap_or(0) * self.columns;
                self.cells.splice(..0, std::iter::repeat_n(0, before));
                self.cells.resize(bins * self.columns, 0);
                self.first = first;
                return;
            }
            self.coarsen();
        }
    }

    /// Makes one bin of several.
    fn coarsen(&mut self) {
        let several = LENGTHS[self.length + 1] / LENGTHS[self.length];
        let first = self.first / several;
        let mut cells: Vec<u64> = Vec::new();
        for (row, bin) in self.cells.chunks(self.columns).zip(self.first..) {
            let at = usize::try_from(bin / several - first).unwrap_or(0) * self.columns;
            if at == cells.len() {
                cells.extend_from_slice(row);
                continue;
            }
            for ((cell, more), adds) in cells[at..].iter_mut().zip(row).zip(&self.adds) {
                *cell = if *adds { cell.saturating_add(*more) } else { (*cell).max(*more) };
            }
        }
        (self.length, self.first, self.cells) = (self.length + 1, first, cells);
    }

    /// Makes bins at least so long: what is counted may not be known any finer.
    pub(crate) fn no_finer_than(&mut self, length_us: u64) {
        while self.length_us() < length_us && self.length + 1 < LENGTHS.len() {
            self.coarsen();
        }
    }

    /// One count over all bins.
    pub(crate) fn column(&self, number: usize) -> Vec<u64> {
        self.cells.iter().skip(number).step_by(self.columns).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Bins, LENGTHS};

    #[test]
    fn each_length_divides_the_next_and_the_last_holds_all_time() {
        assert!(LENGTHS.windows(2).all(|pair| pair[1] % pair[0] == 0 && pair[1] > pair[0]));
        assert!(LENGTHS[LENGTHS.len() - 1] > 9_000_000_000_000_000);
    }

    #[test]
    fn what_is_known_to_the_second_is_counted_by_the_second() {
        let mut bins = Bins::new(40, vec![true]);
        for time in [5_000_000, 5_000_000, 6_000_000] {
            bins.at(time)[0] += 1;
        }
        bins.no_finer_than(1_000_000);
        assert_eq!((bins.start_us(), bins.length_us(), bins.column(0)), (5_000_000, 1_000_000, vec![2, 1]));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_everything_is_where_it_belongs(
            times in prop::collection::vec(prop_oneof![0..5_000_000_u64, 0..9_000_000_000_000_000_u64, 1_700_000_000_000_000..1_700_000_900_000_000_u64], 1..60),
            most in 2_usize..40,
        ) {
            let mut bins = Bins::new(most, vec![true, false]);
            for (time, i) in times.iter().zip(1..) {
                let row = bins.at(*time);
                row[0] += 1;
                row[1] = row[1].max(i);
            }
            let (counts, maxima) = (bins.column(0), bins.column(1));
            prop_assert!(counts.len() <= most);
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
