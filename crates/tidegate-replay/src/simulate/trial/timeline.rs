//! [`Timeline`]: what was let through over time, coarse enough to draw.

use serde::Serialize;

use crate::replay::lengths_from;

/// The most bins.
const MOST: usize = 300;

/// What was asked for and let through over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timeline {
    /// Where the first bin begins.
    pub from_us: u64,
    /// How long a bin is.
    pub bin_us: u64,
    /// Units asked for in each bin.
    pub asked_units: Vec<u64>,
    /// For each algorithm, units let through in each bin.
    pub admitted_units: Vec<Vec<u64>>,
}

/// Bins that become longer whenever there would be too many; their lengths are those that a person would choose.
#[derive(Debug)]
pub(super) struct Bins {
    from_us: Option<u64>,
    bin_us: u64,
    /// What was asked for, then what each algorithm let through.
    rows: Vec<Vec<u64>>,
}

impl Bins {
    pub(super) fn new(algorithms: usize) -> Self {
        Self { from_us: None, bin_us: 1_000, rows: vec![Vec::new(); algorithms + 1] }
    }

    /// The bin that holds a moment; what is before the first request is counted with it.
    pub(super) fn bin(&mut self, time_us: u64) -> usize {
        let since = time_us.saturating_sub(*self.from_us.get_or_insert(time_us));
        while since / self.bin_us >= MOST as u64 {
            let longer = lengths_from(self.bin_us + 1).next().unwrap_or(self.bin_us * 2);
            let together = usize::try_from(longer / self.bin_us).unwrap_or(usize::MAX);
            let sum = |bins: &[u64]| bins.iter().fold(0, |sum: u64, units| sum.saturating_add(*units));
            self.rows.iter_mut().for_each(|row| *row = row.chunks(together).map(sum).collect());
            self.bin_us = longer;
        }
        let bin = usize::try_from(since / self.bin_us).unwrap_or(0);
        if bin >= self.rows[0].len() {
            self.rows.iter_mut().for_each(|row| row.resize(bin + 1, 0));
        }
        bin
    }

    pub(super) fn asked(&mut self, bin: usize, units: u64) {
        let asked = &mut self.rows[0][bin];
        *asked = asked.saturating_add(units);
    }

    pub(super) fn admitted(&mut self, bin: usize, place: usize, units: u64) {
        let admitted = &mut self.rows[place + 1][bin];
        *admitted = admitted.saturating_add(units);
    }

    pub(super) fn finish(self) -> Timeline {
        let mut rows = self.rows.into_iter();
        Timeline {
            from_us: self.from_us.unwrap_or(0),
            bin_us: self.bin_us,
            asked_units: rows.next().unwrap_or_default(),
            admitted_units: rows.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bins;

    #[test]
    fn nothing_is_lost_as_bins_grow() {
        let mut bins = Bins::new(1);
        for time in (5_000..50_000_000).step_by(7_777) {
            let bin = bins.bin(time);
            bins.asked(bin, 2);
            bins.admitted(bin, 0, 1);
        }
        let requests = (5_000..50_000_000).step_by(7_777).count() as u64;
        let timeline = bins.finish();
        assert_eq!((timeline.bin_us, timeline.asked_units.len()), (200_000, 250));
        assert_eq!(timeline.asked_units.iter().sum::<u64>(), 2 * requests);
        assert_eq!(timeline.admitted_units[0].iter().sum::<u64>(), requests);
    }
}
