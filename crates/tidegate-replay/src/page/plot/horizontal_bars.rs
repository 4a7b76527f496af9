//! [`HorizontalBars`]: groups of horizontal bars. The name of a group is above its bars, so that long names fit.

use std::fmt::Write as _;

use super::{
    Axis, LABEL_ROW, Scale, Style,
    legend::{Legend, Symbol},
    svg,
    threshold::{LabelPosition, ThresholdLine},
};
use crate::{page::escape, short_names::shorten_all};

type NumberFormat = fn(f64) -> String;

/// Groups of horizontal bars, with one bar for each series.
pub(in crate::page) struct HorizontalBars<'a> {
    pub(in crate::page) title: &'a str,
    /// Description for screen readers.
    pub(in crate::page) about: &'a str,
    /// Name of the axis.
    pub(in crate::page) unit: &'a str,
    /// Formats of the values of bars, and of ticks.
    pub(in crate::page) formats: (NumberFormat, NumberFormat),
    pub(in crate::page) series: Vec<(&'a str, Style)>,
    /// The name of each group, and a value for each series.
    pub(in crate::page) groups: Vec<(&'a str, Vec<f64>)>,
    pub(in crate::page) range: BarRange<'a>,
}

/// The range of the axis.
pub(in crate::page) enum BarRange<'a> {
    /// From 0 to the largest value.
    FromZero,
    /// From 0 to at least this value, for charts side by side.
    UpTo(f64),
    /// Logarithmic, with a line at a value and a label above. Bars below `from`, which is positive, have no length.
    Logarithmic { from: f64, line_at: f64, label: &'a str },
}

const NAME: u32 = 18;
const BAR: u32 = 13;
const GAP: u32 = 10;

impl HorizontalBars<'_> {
    /// Returns the scale. A quarter is left for the number after the longest bar.
    fn scale(&self) -> Scale {
        let max = self.groups.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
        match self.range {
            BarRange::FromZero => Scale::linear(0.0, max * 1.25),
            BarRange::UpTo(min) => Scale::linear(0.0, max.max(min) * 1.25),
            BarRange::Logarithmic { from, .. } => Scale::log(from, from * (max / from).max(10.0).powf(1.25)),
        }
    }

    pub(in crate::page) fn html(&self) -> String {
        let mut legend = Legend::default();
        self.series.iter().for_each(|(name, style)| legend.add(Symbol::Bar, *style, name));
        let bars = u32::try_from(self.series.len()).unwrap_or(1);
        let group = NAME + bars * BAR + GAP;
        let height = u32::try_from(self.groups.len()).unwrap_or(1).saturating_mul(group);
        let (format, tick_format) = self.formats;
        let axis = Axis::new(self.unit, self.scale(), tick_format).ticks(8);
        let above = if matches!(self.range, BarRange::Logarithmic { .. }) { LABEL_ROW } else { 0 };
        let mut out = svg::figure(self.title, &legend.html(), "");
        out += &svg::open(self.title, self.about, height, above, "low rows");
        out.extend(axis.labels().iter().map(|label| svg::x_tick(label, true)));
        if let BarRange::Logarithmic { line_at, label, .. } = self.range {
            let line = ThresholdLine { value: line_at, style: Style::Note, label: label.to_owned() };
            let position = LabelPosition { row: 0, is_left: false, has_leader: true };
            out += &line.label_above(&axis.scale, position);
            // The line skips the names of the groups, so that it crosses none.
            let x = svg::percent(axis.scale.position(line_at));
            let above = [(-i64::from(above), 0)].into_iter();
            let tops = (0..i64::from(height)).step_by(group as usize);
            for (y1, y2) in above.chain(tops.map(|top| (top + i64::from(NAME), top + i64::from(group - GAP)))) {
                let _ = write!(out, "<line class=\"rule note\" x1=\"{x}\" x2=\"{x}\" y1=\"{y1}\" y2=\"{y2}\"/>");
            }
        }
        let names: Vec<&str> = self.groups.iter().map(|(name, _)| *name).collect();
        let names = shorten_all(&names, 44);
        let groups = self.groups.iter().zip(names);
        for (((_, values), name), top) in groups.zip((0..).step_by(group as usize)) {
            let name = escape::text(&name);
            let _ = write!(out, "<text class=\"group\" x=\"4\" y=\"{}\">{name}</text>", top + NAME - 5);
            for ((value, (series, style)), y) in
                values.iter().zip(&self.series).zip((top + NAME..).step_by(BAR as usize))
            {
                let (width, class) = (svg::percent(axis.scale.position(*value)), style.class());
                let (value, series) = (escape::text(&format(*value)), escape::text(series));
                let (height, baseline) = (BAR - 2, y + 9);
                let _ = write!(
                    out,
                    "<rect class=\"bar {class}\" x=\"0\" y=\"{y}\" width=\"{width}\" height=\"{height}\">\
                     <title>{name}: {value} {series}</title></rect>\
                     <text class=\"value\" x=\"{width}\" dx=\"5\" y=\"{baseline}\">{value}</text>"
                );
            }
        }
        let unit = escape::text(self.unit);
        out + &svg::vertical_line("axis", "0", 0) + &format!("</svg><p class=\"unit right\">{unit}</p></figure>\n")
    }
}
