//! [`Rows`]: bars that lie, a group to each name. Names stand above their bars, so that long ones have room.

use std::fmt;

use super::draw::{ROW, figure, open, percent, x_label};
use super::legend::{Legend, Sample};
use super::rules::{self, Rule};
use super::{Axis, Look, Scale};
use crate::page::escape;

/// Bars that lie, one for each series, in groups with a name.
#[derive(Debug, Clone)]
pub struct Rows {
    title: String,
    about: String,
    unit: String,
    format: fn(f64) -> String,
    ticks: fn(f64) -> String,
    series: Vec<(String, Look)>,
    groups: Vec<(String, Vec<f64>)>,
    most: f64,
    /// Where the axis begins if its steps are equal ratios.
    log_from: Option<f64>,
    rule: Option<Rule>,
}

const NAME: u32 = 18;
const BAR: u32 = 13;
const GAP: u32 = 10;

impl Rows {
    /// Rows without any yet; `unit` is the name of the axis, `format` writes a bar's value and `ticks` those of the axis.
    pub fn new(
        title: impl Into<String>,
        unit: impl Into<String>,
        format: fn(f64) -> String,
        ticks: fn(f64) -> String,
    ) -> Self {
        let (title, unit) = (title.into(), unit.into());
        let (series, groups) = (Vec::new(), Vec::new());
        Self { title, about: String::new(), unit, format, ticks, series, groups, most: 0.0, log_from: None, rule: None }
    }

    /// What is to be seen, in a sentence, for those who don't see it.
    #[must_use]
    pub fn about(self, about: impl Into<String>) -> Self {
        Self { about: about.into(), ..self }
    }

    /// A series: the next bar of each group.
    #[must_use]
    pub fn series(mut self, name: &str, look: Look) -> Self {
        self.series.push((name.to_owned(), look));
        self
    }

    /// A group: a value for each series.
    #[must_use]
    pub fn row(mut self, name: &str, values: &[f64]) -> Self {
        self.most = values.iter().copied().fold(self.most, f64::max);
        self.groups.push((name.to_owned(), values.to_vec()));
        self
    }

    /// The same with an axis that reaches at least as far as one with a bar of this value: for plots side by side.
    #[must_use]
    pub fn as_far_as(self, most: f64) -> Self {
        Self { most: self.most.max(most), ..self }
    }

    /// The same with equal steps for equal ratios, from a value above 0 on; bars below it have no length.
    #[must_use]
    pub fn ratios(self, from: f64) -> Self {
        Self { log_from: Some(from), ..self }
    }

    /// A line at a value, with a label above.
    #[must_use]
    pub fn rule(self, value: f64, look: Look, label: &str) -> Self {
        Self { rule: Some(Rule::across(value, look, label)), ..self }
    }

    /// A quarter is left for the number behind the longest bar.
    fn scale(&self) -> Scale {
        match self.log_from {
            None => Scale::linear(0.0, self.most * 1.25),
            Some(from) => Scale::log(from, from * (self.most / from).max(10.0).powf(1.25)),
        }
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut legend = Legend::default();
        self.series.iter().for_each(|(name, look)| legend.add(Sample::Bar, *look, name));
        figure(f, &self.title, &legend.html(), "")?;
        let bars = u32::try_from(self.series.len()).unwrap_or(1);
        let group = NAME + bars * BAR + GAP;
        let height = u32::try_from(self.groups.len()).unwrap_or(1).saturating_mul(group);
        let axis = Axis::new(self.unit.as_str(), self.scale(), self.ticks).ticks(8);
        open(f, &self.title, &self.about, height, if self.rule.is_some() { ROW } else { 0 }, "low rows")?;
        for label in axis.labels() {
            x_label(f, &label, true, true)?;
        }
        if let Some(rule) = &self.rule {
            let (x, class) = (percent(axis.scale.place(rule.value)), rule.look.class());
            let label = escape::text(&escape::clip(&rule.label, rules::LABEL));
            write!(f, "<line class=\"rule {class}\" x1=\"{x}\" x2=\"{x}\" y1=\"-14\" y2=\"100%\"/>")?;
            write!(f, "<text class=\"mark\" x=\"{x}\" y=\"-5\" dx=\"4\">{label}</text>")?;
        }
        for (i, (name, values)) in self.groups.iter().enumerate() {
            let top = u32::try_from(i).unwrap_or(0) * group;
            let name = escape::text(&escape::clip(name, 44));
            write!(f, "<text class=\"group\" x=\"4\" y=\"{}\">{name}</text>", top + NAME - 5)?;
            for (nth, (value, (series, look))) in values.iter().zip(&self.series).enumerate() {
                let y = top + NAME + u32::try_from(nth).unwrap_or(0) * BAR;
                let (width, class, value) = (percent(axis.scale.place(*value)), look.class(), (self.format)(*value));
                let title = format!("{name}: {} {}", escape::text(&value), escape::text(series));
                let height = BAR - 2;
                write!(
                    f,
                    "<rect class=\"bar {class}\" x=\"0\" y=\"{y}\" width=\"{width}\" height=\"{height}\"><title>{title}</title></rect>"
                )?;
                let (value, y) = (escape::text(&value), y + 9);
                write!(f, "<text class=\"value\" x=\"{width}\" dx=\"5\" y=\"{y}\">{value}</text>")?;
            }
        }
        write!(f, "<line class=\"axis\" x1=\"0\" x2=\"0\" y1=\"0\" y2=\"100%\"/></svg>")?;
        writeln!(f, "<p class=\"unit right\">{}</p></figure>", escape::text(&self.unit))
    }
}
