//! [`HorizontalBars`]: groups of horizontal bars. The name of a group is above its bars, so that long names fit.

use std::fmt::Write as _;

use super::{
    Axis, LABEL_ROW, Scale, Style,
    legend::{Legend, Symbol},
    svg,
    threshold::{LabelPosition, ThresholdLine},
};
use crate::{formatting::clip, page::escape};

/// Groups of horizontal bars, with one bar for each series.
#[derive(Debug, Clone)]
pub(in crate::page) struct HorizontalBars {
    title: String,
    about: String,
    unit: String,
    format: fn(f64) -> String,
    tick_format: fn(f64) -> String,
    series: Vec<(String, Style)>,
    groups: Vec<(String, Vec<f64>)>,
    max: f64,
    /// Start of a logarithmic axis.
    log_from: Option<f64>,
    threshold: Option<ThresholdLine>,
}

const NAME: u32 = 18;
const BAR: u32 = 13;
const GAP: u32 = 10;

impl HorizontalBars {
    /// Creates an empty chart. `unit` is the name of the axis. `format` writes the values of bars, and `tick_format` the ticks.
    pub(in crate::page) fn new(
        title: &str,
        unit: &str,
        format: fn(f64) -> String,
        tick_format: fn(f64) -> String,
    ) -> Self {
        Self {
            title: title.to_owned(),
            about: String::new(),
            unit: unit.to_owned(),
            format,
            tick_format,
            series: Vec::new(),
            groups: Vec::new(),
            max: 0.0,
            log_from: None,
            threshold: None,
        }
    }

    /// Sets the description for screen readers.
    pub(in crate::page) fn about(self, about: &str) -> Self {
        Self { about: about.to_owned(), ..self }
    }

    /// Adds a series: the next bar of each group.
    pub(in crate::page) fn series(mut self, name: &str, style: Style) -> Self {
        self.series.push((name.to_owned(), style));
        self
    }

    /// Adds groups: a name, and a value for each series.
    pub(in crate::page) fn groups<'a>(mut self, groups: impl IntoIterator<Item = (&'a str, Vec<f64>)>) -> Self {
        for (name, values) in groups {
            self.max = values.iter().copied().fold(self.max, f64::max);
            self.groups.push((name.to_owned(), values));
        }
        self
    }

    /// Extends the axis to at least this value, for charts side by side.
    pub(in crate::page) fn extend_to(self, max: f64) -> Self {
        Self { max: self.max.max(max), ..self }
    }

    /// Makes the axis logarithmic, from a positive value on. Smaller bars have no length.
    pub(in crate::page) fn logarithmic(self, from: f64) -> Self {
        Self { log_from: Some(from), ..self }
    }

    /// Adds a line at a value, with a label above.
    pub(in crate::page) fn threshold(self, value: f64, style: Style, label: &str) -> Self {
        Self { threshold: Some(ThresholdLine { value, style, label: label.to_owned(), is_vertical: true }), ..self }
    }

    /// Returns the scale. A quarter is left for the number after the longest bar.
    fn scale(&self) -> Scale {
        match self.log_from {
            None => Scale::linear(0.0, self.max * 1.25),
            Some(from) => Scale::log(from, from * (self.max / from).max(10.0).powf(1.25)),
        }
    }

    pub(in crate::page) fn html(&self) -> String {
        let mut legend = Legend::default();
        self.series.iter().for_each(|(name, style)| legend.add(Symbol::Bar, *style, name));
        let bars = u32::try_from(self.series.len()).unwrap_or(1);
        let group = NAME + bars * BAR + GAP;
        let height = u32::try_from(self.groups.len()).unwrap_or(1).saturating_mul(group);
        let axis = Axis::new(self.unit.as_str(), self.scale(), self.tick_format).ticks(8);
        let above = if self.threshold.is_some() { LABEL_ROW } else { 0 };
        let mut out = svg::figure(&self.title, &legend.html(), "");
        out += &svg::open(&self.title, &self.about, height, above, "low rows");
        out.extend(axis.labels().iter().map(|label| svg::x_tick(label, true)));
        if let Some(line) = &self.threshold {
            let position = LabelPosition { row: 0, is_left: false };
            out += &(line.vertical_line(&axis.scale, position) + &line.label_above(&axis.scale, position));
        }
        for ((name, values), top) in self.groups.iter().zip((0..).step_by(group as usize)) {
            let name = escape::text(&clip(name, 44));
            let _ = write!(out, "<text class=\"group\" x=\"4\" y=\"{}\">{name}</text>", top + NAME - 5);
            for ((value, (series, style)), y) in
                values.iter().zip(&self.series).zip((top + NAME..).step_by(BAR as usize))
            {
                let (width, class) = (svg::percent(axis.scale.position(*value)), style.class());
                let (value, series) = (escape::text(&(self.format)(*value)), escape::text(series));
                let (height, baseline) = (BAR - 2, y + 9);
                let _ = write!(
                    out,
                    "<rect class=\"bar {class}\" x=\"0\" y=\"{y}\" width=\"{width}\" height=\"{height}\">\
                     <title>{name}: {value} {series}</title></rect>\
                     <text class=\"value\" x=\"{width}\" dx=\"5\" y=\"{baseline}\">{value}</text>"
                );
            }
        }
        let unit = escape::text(&self.unit);
        out + &svg::vertical_line("axis", "0", 0) + &format!("</svg><p class=\"unit right\">{unit}</p></figure>\n")
    }
}
