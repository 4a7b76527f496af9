//! A small kit for plots: SVG in a page, without a script.
//!
//! A [`Plot`] is an area between two [`Axis`]es and what is drawn in it. Places are percentages of the area and letters keep
//! their size, so that the same plot fills a wide screen, a telephone and a sheet of paper. A [`Look`] is a class: colours,
//! dashes and patterns are the style sheet's, which knows light, dark and print. [`Rows`] are bars that lie, one group to a
//! name. The style sheet and the patterns come with [`document`](super::document()).
//!
//! ```
//! use tidegate_replay::page::plot::{Axis, Bins, Look, Plot};
//!
//! let bins = Bins::new(1_431_857_100_000_000, 60_000_000);
//! let plot = Plot::new("Requests over time", Axis::time(1_431_857_100_000_000, 1_431_857_280_000_000), Axis::counts("requests a minute", 9))
//!     .bins_area("requests", Look::Requests, bins, &[3, 9, 4])
//!     .rule_y(6.0, Look::Limit, "limit 6/1m");
//! assert!(plot.to_string().starts_with("<figure"));
//! ```

mod axis;
mod bars;
mod draw;
mod legend;
mod look;
mod rows;
mod rules;
mod scale;
mod shape;
mod ticks;
mod time;

pub use axis::Axis;
pub use bars::Bins;
pub use look::Look;
pub use rows::Rows;
pub use scale::{Scale, Tick, as_f64};

use bars::Bar;
use legend::{Legend, Sample};
use rules::Rule;
use shape::{Kind, Shape};

/// An area between two axes, and what is drawn in it.
#[derive(Debug, Clone)]
pub struct Plot {
    title: String,
    about: String,
    x: Axis,
    y: Axis,
    height: u32,
    x_labels: bool,
    legend: Legend,
    legend_shown: bool,
    bands: Vec<(f64, f64)>,
    bars: Vec<Bar>,
    shapes: Vec<Shape>,
    rules: Vec<Rule>,
    dots: Vec<Dot>,
    hovers: Vec<Hover>,
}

#[derive(Debug, Clone)]
struct Dot {
    x: f64,
    y: f64,
    look: Look,
    title: String,
}

/// Columns that tell their values when pointed at.
#[derive(Debug, Clone)]
struct Hover {
    from: f64,
    to: f64,
    lines: Vec<String>,
}

impl Plot {
    /// An empty plot.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            about: String::new(),
            x,
            y,
            height: 220,
            x_labels: true,
            legend: Legend::default(),
            legend_shown: true,
            bands: Vec::new(),
            bars: Vec::new(),
            shapes: Vec::new(),
            rules: Vec::new(),
            dots: Vec::new(),
            hovers: Vec::new(),
        }
    }

    /// What is to be seen, in a sentence, for those who don't see it.
    #[must_use]
    pub fn about(self, about: impl Into<String>) -> Self {
        Self { about: about.into(), ..self }
    }

    /// The height of the area, in pixels.
    #[must_use]
    pub fn height(self, height: u32) -> Self {
        Self { height, ..self }
    }

    /// The same without numbers below: for a plot that stands on another with the same axis.
    #[must_use]
    pub fn without_x_labels(self) -> Self {
        Self { x_labels: false, ..self }
    }

    /// The same without its legend: for one of several plots that share it.
    #[must_use]
    pub fn without_legend(self) -> Self {
        Self { legend_shown: false, ..self }
    }

    /// Its legend, as HTML.
    pub fn legend(&self) -> String {
        self.legend.html()
    }

    /// Straight lines from point to point.
    #[must_use]
    pub fn line(self, name: &str, look: Look, points: &[(f64, f64)]) -> Self {
        self.shape(name, look, Kind::Line, points.to_vec())
    }

    /// The same, filled down to the axis.
    #[must_use]
    pub fn area(self, name: &str, look: Look, points: &[(f64, f64)]) -> Self {
        self.shape(name, look, Kind::Area, points.to_vec())
    }

    /// Steps: each value holds until the next point; the last point only ends it.
    #[must_use]
    pub fn steps(self, name: &str, look: Look, points: &[(f64, f64)]) -> Self {
        self.shape(name, look, Kind::Line, shape::steps(points))
    }

    /// The same, filled down to the axis.
    #[must_use]
    pub fn steps_area(self, name: &str, look: Look, points: &[(f64, f64)]) -> Self {
        self.shape(name, look, Kind::Area, shape::steps(points))
    }

    /// Counts in bins, as steps.
    #[must_use]
    pub fn bins_steps(self, name: &str, look: Look, bins: Bins, counts: &[u64]) -> Self {
        self.steps(name, look, &bins.points(counts))
    }

    /// Counts in bins, as filled steps.
    #[must_use]
    pub fn bins_area(self, name: &str, look: Look, bins: Bins, counts: &[u64]) -> Self {
        self.steps_area(name, look, &bins.points(counts))
    }

    fn shape(mut self, name: &str, look: Look, kind: Kind, points: Vec<(f64, f64)>) -> Self {
        self.legend.add(if kind == Kind::Line { Sample::Line } else { Sample::Area }, look, name);
        self.shapes.push(Shape { kind, look, points });
        self
    }

    /// A shaded stretch of the horizontal axis, such as a window, with a label at its end.
    #[must_use]
    pub fn band(mut self, from: f64, to: f64, name: &str, label: &str) -> Self {
        self.legend.add(Sample::Band, Look::Note, name);
        self.bands.push((from, to));
        self.rules.push(Rule::across(to, Look::Note, label));
        self
    }

    /// A line at a value of the horizontal axis. Labels stand above the area, each in its own row where they would meet.
    #[must_use]
    pub fn rule_x(mut self, value: f64, look: Look, label: &str) -> Self {
        self.rules.push(Rule::across(value, look, label));
        self
    }

    /// A line at a value of the vertical axis.
    #[must_use]
    pub fn rule_y(mut self, value: f64, look: Look, label: &str) -> Self {
        self.rules.push(Rule::along(value, look, label));
        self
    }

    /// A point that tells something when pointed at.
    #[must_use]
    pub fn dot(mut self, x: f64, y: f64, look: Look, title: &str) -> Self {
        self.dots.push(Dot { x, y, look, title: title.to_owned() });
        self
    }

    /// A stretch of the horizontal axis that tells something when pointed at, line by line.
    #[must_use]
    pub fn hover(mut self, from: f64, to: f64, lines: Vec<String>) -> Self {
        self.hovers.push(Hover { from, to, lines });
        self
    }

    /// A line of the legend for what has none of its own, such as a rule.
    #[must_use]
    pub fn explain(mut self, look: Look, name: &str) -> Self {
        self.legend.add(Sample::Line, look, name);
        self
    }
}
