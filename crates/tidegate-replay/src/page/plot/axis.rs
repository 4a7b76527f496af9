//! [`Axis`]: a scale with a name, a unit and labelled ticks.

use super::rules::CHARACTER;
use super::scale::{Scale, Tick, as_f64};
use super::time;
use crate::figures;

/// A scale that can be read.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Where values lie.
    pub(super) scale: Scale,
    /// What is shown, with its unit.
    pub(super) label: String,
    at_most: usize,
    labels: Labels,
}

#[derive(Debug, Clone)]
enum Labels {
    Numbers(fn(f64) -> String),
    Time,
    Names(Vec<String>),
}

/// A label further to the right ends at its tick: otherwise it would stand out of the page.
pub(super) const PULLED_IN: f64 = 0.96;

/// What a character takes of the area's width where minor labels are shown first.
const LITTLE_WIDER: f64 = 6.6 / 370.0;

/// A label beside a tick.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Label {
    /// The place of the tick, 0 to 1.
    pub(super) place: f64,
    pub(super) text: String,
    /// A second line.
    pub(super) below: Option<String>,
    /// Whether it is left out where there is little room.
    pub(super) minor: bool,
    /// Whether there are so many that a page must be wide for all of them.
    pub(super) crowded: bool,
}

impl Axis {
    /// Any scale, with numbers written by `format`.
    pub fn new(label: impl Into<String>, scale: Scale, format: fn(f64) -> String) -> Self {
        Self { scale, label: label.into(), at_most: 9, labels: Labels::Numbers(format) }
    }

    /// Counts from 0 to the first tick at or above `max`.
    pub fn counts(label: impl Into<String>, max: u64) -> Self {
        Self::new(label, Scale::counts(max).up_to_a_tick(6), figures::short_count).ticks(6)
    }

    /// Shares from 0 to the first tick at or above `max`, 1 at the most.
    pub fn shares(label: impl Into<String>, max: f64) -> Self {
        let max = if max > 0.0 { max.min(1.0) } else { 1.0 };
        Self::new(label, Scale::linear(0.0, max).up_to_a_tick(6), figures::short_share).ticks(6)
    }

    /// Moments in UTC.
    pub fn time(from_us: u64, to_us: u64) -> Self {
        Self { labels: Labels::Time, ..Self::new("time, UTC", Scale::time(from_us, to_us), figures::short_count) }
    }

    /// Names side by side: the first lies from 0 to 1, the second from 1 to 2.
    pub fn names(label: impl Into<String>, names: Vec<String>) -> Self {
        let scale = Scale::linear(0.0, as_f64(names.len().max(1) as u64));
        Self { labels: Labels::Names(names), ..Self::new(label, scale, figures::short_count) }
    }

    /// The same with at most so many ticks.
    #[must_use]
    pub fn ticks(self, at_most: usize) -> Self {
        Self { at_most, ..self }
    }

    /// Its names, if it has such.
    pub(super) fn all_names(&self) -> Option<&[String]> {
        if let Labels::Names(names) = &self.labels { Some(names) } else { None }
    }

    pub(super) fn labels(&self) -> Vec<Label> {
        let ticks = self.scale.ticks(self.at_most);
        match &self.labels {
            Labels::Numbers(format) => {
                let texts: Vec<String> = ticks.iter().map(|tick| format(tick.value)).collect();
                let ticks = self.apart(&ticks, &texts);
                ticks.iter().zip(texts).map(|(tick, text)| self.label(*tick, text)).collect()
            }
            Labels::Time => {
                let texts: Vec<String> = time::labels(&ticks).into_iter().map(|(text, _)| text).collect();
                let ticks = self.apart(&ticks, &texts);
                let days = time::labels(&ticks.iter().map(|(tick, _)| *tick).collect::<Vec<_>>());
                let label = |(tick, (text, below))| Label { below, ..self.label(tick, text) };
                ticks.into_iter().zip(days).map(label).collect()
            }
            Labels::Names(names) => {
                // As many as have room on a screen, and fewer of them on a telephone.
                let (shown, major) = (names.len().div_ceil(18), names.len().div_ceil(6));
                let name = |(i, name): (usize, &String)| {
                    let tick = Tick { value: as_f64(i as u64) + 0.5, minor: !i.is_multiple_of(major) };
                    self.label((tick, names.len() > 9), name.clone())
                };
                names.iter().enumerate().step_by(shown.max(1)).map(name).collect()
            }
        }
    }

    fn label(&self, (tick, crowded): (Tick, bool), text: String) -> Label {
        Label { place: self.scale.place(tick.value), text, below: None, minor: tick.minor, crowded }
    }

    /// The ticks, with those minor whose labels would meet the one before on a telephone; and whether those that are minor would
    /// meet another on a page that is little wider.
    fn apart(&self, ticks: &[Tick], texts: &[String]) -> Vec<(Tick, bool)> {
        let extent = |i: usize, character: f64| {
            let width = as_f64(texts[i].chars().count() as u64 + 2) * character;
            let place = self.scale.place(ticks[i].value);
            let begin = if place > PULLED_IN { place - width } else { place - width / 2.0 };
            (begin, begin + width)
        };
        let meet = |i: usize| extent(i, LITTLE_WIDER).1 > extent(i + 1, LITTLE_WIDER).0;
        let mut end = f64::NEG_INFINITY;
        let apart = |(i, tick): (usize, &Tick)| {
            let (begin, its_end) = extent(i, CHARACTER);
            let minor = tick.minor || begin < end;
            if !minor {
                end = its_end;
            }
            let crowded = (i > 0 && meet(i - 1)) || (i + 1 < ticks.len() && meet(i));
            (Tick { minor, ..*tick }, minor && crowded)
        };
        ticks.iter().enumerate().map(apart).collect()
    }
}
