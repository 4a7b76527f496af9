//! Bars that stand: stacked in bins of time, or side by side over names.

use super::legend::Sample;
use super::scale::as_f64;
use super::{Look, Plot};

/// Stretches of the same length, one after another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bins {
    from: f64,
    width: f64,
}

/// A bar between two values of each axis.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
    pub(super) look: Look,
    pub(super) title: String,
}

impl Bins {
    /// Bins of `width` from `from` on.
    pub fn new(from: u64, width: u64) -> Self {
        Self { from: as_f64(from), width: as_f64(width.max(1)) }
    }

    /// Where a bin begins.
    pub fn start(&self, i: usize) -> f64 {
        self.from + as_f64(i as u64) * self.width
    }

    pub(super) fn points(&self, counts: &[u64]) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> =
            counts.iter().enumerate().map(|(i, count)| (self.start(i), as_f64(*count))).collect();
        if let Some((_, last)) = points.last().copied() {
            points.push((self.start(counts.len()), last));
        }
        points
    }
}

impl Plot {
    /// Counts in bins, each series on top of the one before it.
    #[must_use]
    pub fn stacked(mut self, bins: Bins, series: &[(&str, Look, Vec<u64>)]) -> Self {
        let most = series.iter().map(|(_, _, counts)| counts.len()).max().unwrap_or(0);
        // Where bars are many, gaps between them would be all that is seen.
        let gap = if most <= 80 { 0.06 * bins.width } else { 0.0 };
        let mut tops = vec![0.0; most];
        for (name, look, counts) in series {
            self.legend.add(Sample::Bar, *look, name);
            for (i, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let y = (tops[i], tops[i] + as_f64(*count));
                let x = (bins.start(i) + gap, bins.start(i + 1) - gap);
                self.bars.push(Bar { x, y, look: *look, title: String::new() });
                tops[i] = y.1;
            }
        }
        self
    }

    /// Values over the names of the axis, those of one name side by side; `format` writes what a bar tells.
    #[must_use]
    pub fn grouped(mut self, series: &[(&str, Look, Vec<f64>)], format: fn(f64) -> String) -> Self {
        let width = 0.84 / as_f64(series.len().max(1) as u64);
        let names = self.x.all_names().unwrap_or_default().to_vec();
        for (nth, (name, look, values)) in series.iter().enumerate() {
            self.legend.add(Sample::Bar, *look, name);
            for (i, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
                let from = as_f64(i as u64) + 0.08 + as_f64(nth as u64) * width;
                let title = format!("{name}, {}: {}", names.get(i).map_or("", String::as_str), format(*value));
                self.bars.push(Bar { x: (from, from + width), y: (0.0, *value), look: *look, title });
            }
        }
        self
    }
}
