//! [`Axis`]: a scale with a name, a unit and labelled ticks.

use super::{
    scale::{Scale, Tick, as_f64},
    threshold::CHARACTER,
    time,
};
use crate::formatting::short_count;

/// A scale with a name and ticks.
#[derive(Debug, Clone)]
pub(in crate::page) struct Axis {
    /// Positions of values.
    pub(super) scale: Scale,
    /// Name of the axis, with its unit.
    pub(super) label: String,
    max_ticks: usize,
    tick_format: TickFormat,
}

#[derive(Debug, Clone)]
enum TickFormat {
    Numbers(fn(f64) -> String),
    Time,
}

/// A label to the right of this position ends at its tick, so that it stays within the page.
pub(super) const RIGHT_ALIGNED: f64 = 0.96;

/// Width of a character as a fraction of the area's width on the narrowest page with minor labels.
const MINOR_CHARACTER: f64 = 6.6 / 370.0;

/// Label of a tick.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TickLabel {
    /// Position of the tick, 0 to 1.
    pub(super) position: f64,
    pub(super) text: String,
    /// Second line.
    pub(super) below: Option<String>,
    /// Whether the label is hidden on a narrow page.
    pub(super) is_minor: bool,
    /// Whether the label is hidden unless the page is wide.
    pub(super) is_crowded: bool,
}

impl Axis {
    /// Creates an axis with any scale. `format` writes the numbers.
    pub(in crate::page) fn new(label: impl Into<String>, scale: Scale, format: fn(f64) -> String) -> Self {
        Self { scale, label: label.into(), max_ticks: 9, tick_format: TickFormat::Numbers(format) }
    }

    /// Creates an axis of counts from 0 to the first tick at or above `max`.
    pub(in crate::page) fn counts(label: impl Into<String>, max: u64) -> Self {
        Self::new(label, Scale::counts(max).up_to_a_tick(6), short_count).ticks(6)
    }

    /// Creates an axis of times in UTC.
    pub(in crate::page) fn time(from_us: u64, to_us: u64) -> Self {
        Self {
            tick_format: TickFormat::Time,
            ..Self::new("time, UTC", Scale::time(as_f64(from_us), as_f64(to_us)), short_count)
        }
    }

    /// Sets the maximum number of ticks.
    pub(in crate::page) fn ticks(self, max_ticks: usize) -> Self {
        Self { max_ticks, ..self }
    }

    pub(super) fn labels(&self) -> Vec<TickLabel> {
        let ticks = self.scale.ticks(self.max_ticks);
        match &self.tick_format {
            TickFormat::Numbers(format) => {
                let texts: Vec<String> = ticks.iter().map(|tick| format(tick.value)).collect();
                let ticks = self.without_overlaps(&ticks, &texts);
                ticks.iter().zip(texts).map(|(tick, text)| self.label(*tick, text)).collect()
            }
            TickFormat::Time => {
                let texts: Vec<String> = time::labels(&ticks).into_iter().map(|(text, _)| text).collect();
                let ticks = self.without_overlaps(&ticks, &texts);
                let days = time::labels(&ticks.iter().map(|(tick, _)| *tick).collect::<Vec<_>>());
                let label = |(tick, (text, below))| TickLabel { below, ..self.label(tick, text) };
                ticks.into_iter().zip(days).map(label).collect()
            }
        }
    }

    fn label(&self, (tick, is_crowded): (Tick, bool), text: String) -> TickLabel {
        let position = self.scale.position(tick.value);
        TickLabel { position, text, below: None, is_minor: tick.is_minor, is_crowded }
    }

    /// Makes the ticks minor whose labels would overlap on a phone. Also returns whether a minor label would overlap on a slightly wider
    /// page.
    fn without_overlaps(&self, ticks: &[Tick], texts: &[String]) -> Vec<(Tick, bool)> {
        let extent = |i: usize, character: f64| {
            let width = as_f64(texts[i].chars().count() as u64 + 2) * character;
            let position = self.scale.position(ticks[i].value);
            let begin = position - if position > RIGHT_ALIGNED { width } else { width / 2.0 };
            (begin, begin + width)
        };
        let overlaps = |i: usize| extent(i, MINOR_CHARACTER).1 > extent(i + 1, MINOR_CHARACTER).0;
        let mut end = f64::NEG_INFINITY;
        let checked = |(i, tick): (usize, &Tick)| {
            let (begin, its_end) = extent(i, CHARACTER);
            let is_minor = tick.is_minor || begin < end;
            if !is_minor {
                end = its_end;
            }
            let is_crowded = (i > 0 && overlaps(i - 1)) || (i + 1 < ticks.len() && overlaps(i));
            (Tick { is_minor, ..*tick }, is_minor && is_crowded)
        };
        ticks.iter().enumerate().map(checked).collect()
    }
}
