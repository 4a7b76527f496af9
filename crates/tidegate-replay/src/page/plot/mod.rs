//! Plots as SVG without scripts.
//!
//! A [`Plot`] is an area between two [`Axis`]es. Positions are percentages of the area, and text keeps its size, so that the same plot
//! fits a wide screen, a phone and a sheet of paper. A [`Style`] is a class of the style sheet, which has colours, dashes and patterns
//! for light, dark and print. [`HorizontalBars`] are groups of horizontal bars.

mod axis;
mod horizontal_bars;
mod legend;
mod scale;
mod series;
mod style;
mod svg;
mod threshold;
mod ticks;
mod time;

use std::fmt::Write as _;

pub(super) use axis::Axis;
pub(super) use horizontal_bars::{BarRange, HorizontalBars};
pub(super) use scale::{Scale, as_f64};
pub(super) use style::Style;

use super::escape;
use legend::{Legend, Symbol};
use series::{SIZE, area_path, line_path, steps};
use svg::{horizontal_line, percent};
use threshold::ThresholdLine;

/// Height of a row of labels above the area, in pixels.
const LABEL_ROW: u32 = 16;

/// Bins of equal length on the horizontal axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeBins {
    pub(super) from_us: u64,
    pub(super) bin_us: u64,
}

impl TimeBins {
    /// Returns the start of a bin in microseconds.
    pub(super) fn start_us(&self, bin: usize) -> u64 {
        self.from_us.saturating_add(self.bin_us.saturating_mul(bin as u64))
    }

    /// Returns the start of a bin as a value of the axis.
    pub(super) fn start(&self, bin: usize) -> f64 {
        as_f64(self.from_us) + as_f64(bin as u64) * as_f64(self.bin_us.max(1))
    }

    /// Returns the axis of this number of bins.
    pub(super) fn axis(&self, bins: usize) -> Axis {
        Axis::time(self.from_us, self.start_us(bins))
    }

    /// Returns counts in bins as the points of a step line.
    pub(super) fn points(&self, counts: &[u64]) -> Vec<(f64, f64)> {
        let ends = counts.iter().chain(counts.last());
        ends.enumerate().map(|(bin, count)| (self.start(bin), as_f64(*count))).collect()
    }
}

/// An area between two axes. Layers of SVG are drawn in it.
#[derive(Debug, Clone)]
pub(super) struct Plot {
    title: String,
    about: String,
    x: Axis,
    y: Axis,
    height: u32,
    has_x_labels: bool,
    legend: Legend,
    has_legend: bool,
    /// Lines at values of the horizontal axis.
    vertical: Vec<ThresholdLine>,
    /// Lines at values of the vertical axis.
    horizontal: Vec<ThresholdLine>,
    /// Bands and bars.
    background: String,
    /// Paths in a square of [`SIZE`] that is stretched to the area.
    paths: String,
    /// Dots and tooltips.
    foreground: String,
}

impl Plot {
    /// Creates an empty plot.
    pub(super) fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            about: String::new(),
            x,
            y,
            height: 220,
            has_x_labels: true,
            legend: Legend::default(),
            has_legend: true,
            vertical: Vec::new(),
            horizontal: Vec::new(),
            background: String::new(),
            paths: String::new(),
            foreground: String::new(),
        }
    }

    /// Sets the description for screen readers.
    pub(super) fn about(self, about: impl Into<String>) -> Self {
        Self { about: about.into(), ..self }
    }

    /// Sets the height of the area, in pixels.
    pub(super) fn height(self, height: u32) -> Self {
        Self { height, ..self }
    }

    /// Hides the labels of the horizontal axis, for a plot above another with the same axis.
    pub(super) fn without_x_labels(self) -> Self {
        Self { has_x_labels: false, ..self }
    }

    /// Hides the legend, for plots that share one.
    pub(super) fn without_legend(self) -> Self {
        Self { has_legend: false, ..self }
    }

    /// Returns the legend as HTML.
    pub(super) fn legend(&self) -> String {
        self.legend.html()
    }

    /// Adds a step line. Each value applies until the next point. The last point only ends the line.
    pub(super) fn step_line(mut self, name: &str, style: Style, points: &[(f64, f64)]) -> Self {
        self.legend.add(Symbol::Line, style, name);
        self.paths += &line_path(style, &steps(points), &self.x.scale, &self.y.scale);
        self
    }

    /// Adds a step line with a filled area below.
    pub(super) fn step_area(mut self, name: &str, style: Style, points: &[(f64, f64)]) -> Self {
        self.legend.add(Symbol::Area, style, name);
        self.paths += &area_path(style, &steps(points), &self.x.scale, &self.y.scale);
        self
    }

    /// Adds counts in bins as bars. Each series is stacked on the previous one.
    pub(super) fn stacked(mut self, bins: TimeBins, series: &[(&str, Style, Vec<u64>)]) -> Self {
        let len = series.iter().map(|(_, _, counts)| counts.len()).max().unwrap_or(0);
        // Gaps between many bars would hide the bars.
        let gap = if len <= 80 { 0.06 * as_f64(bins.bin_us.max(1)) } else { 0.0 };
        let mut tops = vec![0.0; len];
        for (name, style, counts) in series {
            self.legend.add(Symbol::Bar, *style, name);
            for (i, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let y = (tops[i], tops[i] + as_f64(*count));
                self.bar((bins.start(i) + gap, bins.start(i + 1) - gap), y, *style);
                tops[i] = y.1;
            }
        }
        self
    }

    fn bar(&mut self, x: (f64, f64), y: (f64, f64), style: Style) {
        let (left, right) = (self.x.scale.position(x.0), self.x.scale.position(x.1));
        let (top, bottom) = (1.0 - self.y.scale.position(y.1), 1.0 - self.y.scale.position(y.0));
        let [left, width, top, height] = [left, right - left, top, bottom - top].map(percent);
        let class = style.class();
        let _ = write!(
            self.background,
            "<rect class=\"bar {class}\" x=\"{left}\" width=\"{width}\" y=\"{top}\" height=\"{height}\"/>"
        );
    }

    /// Adds a shaded range of the horizontal axis, such as a window, with a label at its end.
    pub(super) fn band(mut self, from: f64, to: f64, name: &str, label: &str) -> Self {
        self.legend.add(Symbol::Band, Style::Note, name);
        let (start, end) = (self.x.scale.position(from), self.x.scale.position(to));
        let [x, width] = [start, end - start].map(percent);
        let _ = write!(self.background, "<rect class=\"band\" x=\"{x}\" width=\"{width}\" y=\"0\" height=\"100%\"/>");
        self.vertical_threshold(to, Style::Note, label)
    }

    /// Adds a line at a value of the horizontal axis. Labels are above the area, in separate rows where they would overlap each other or
    /// a line.
    pub(super) fn vertical_threshold(mut self, value: f64, style: Style, label: &str) -> Self {
        self.vertical.push(ThresholdLine { value, style, label: label.to_owned() });
        self
    }

    /// Adds a line at a value of the vertical axis.
    pub(super) fn horizontal_threshold(mut self, value: f64, style: Style, label: &str) -> Self {
        self.horizontal.push(ThresholdLine { value, style, label: label.to_owned() });
        self
    }

    /// Adds a point with a tooltip.
    pub(super) fn dot(mut self, x: f64, y: f64, style: Style, tooltip: &str) -> Self {
        let (cx, cy) = (percent(self.x.scale.position(x)), percent(1.0 - self.y.scale.position(y)));
        let (class, tooltip) = (style.class(), escape::text(tooltip));
        let _ = write!(
            self.foreground,
            "<circle class=\"dot {class}\" cx=\"{cx}\" cy=\"{cy}\" r=\"4.5\"><title>{tooltip}</title></circle>"
        );
        self
    }

    /// Adds a tooltip for a range of the horizontal axis.
    pub(super) fn tooltip(mut self, from: f64, to: f64, lines: &[String]) -> Self {
        let (start, end) = (self.x.scale.position(from), self.x.scale.position(to));
        let [x, width] = [start, end - start].map(percent);
        let lines = lines.iter().map(|line| escape::text(line)).collect::<Vec<_>>().join("\n");
        let _ = write!(
            self.foreground,
            "<rect class=\"hover\" x=\"{x}\" width=\"{width}\" y=\"0\" height=\"100%\"><title>{lines}</title></rect>"
        );
        self
    }

    /// Adds tooltips for the bins with a positive count. `lines` returns the text after the time.
    pub(super) fn bin_tooltips(
        self,
        bins: TimeBins,
        counts: &[u64],
        lines: impl Fn(usize, u64) -> Vec<String>,
    ) -> Self {
        counts.iter().enumerate().filter(|(_, count)| **count > 0).fold(self, |plot, (bin, count)| {
            let mut text = vec![crate::formatting::timestamp(bins.start_us(bin))];
            text.extend(lines(bin, *count));
            plot.tooltip(bins.start(bin), bins.start(bin + 1), &text)
        })
    }

    /// Adds an entry to the legend, for lines that have none.
    pub(super) fn explain(mut self, style: Style, name: &str) -> Self {
        self.legend.add(Symbol::Line, style, name);
        self
    }

    /// Returns the plot as a figure with a caption, a legend and a picture. The picture is only the area between the axes. Numbers and
    /// labels are around it.
    pub(super) fn html(&self) -> String {
        let legend = if self.has_legend { self.legend.html() } else { String::new() };
        let vertical = self.vertical.iter().map(|line| (self.x.scale.position(line.value), line.label.as_str()));
        let horizontal = self.horizontal.iter().map(|line| (1.0, line.label.as_str()));
        let labels: Vec<(f64, &str)> = vertical.chain(horizontal).collect();
        let positions = threshold::label_positions(&labels);
        let labelled = positions.iter().zip(&labels).filter(|(_, (_, label))| !label.is_empty());
        let rows = labelled.map(|(position, _)| position.row + 1).max().unwrap_or(0);
        let (vertical, horizontal) = positions.split_at(self.vertical.len());
        let vertical = self.vertical.iter().zip(vertical);
        let horizontal = self.horizontal.iter().zip(horizontal);
        let ticks = self.x.labels();
        let class = match (self.has_x_labels, ticks.iter().any(|label| label.below.is_some())) {
            (false, _) => "bare",
            (true, false) => "low",
            (true, true) => "lower",
        };
        let mut out = svg::figure(&self.title, &legend, &self.y.label);
        out += &svg::open(&self.title, &self.about, self.height, rows * LABEL_ROW, class);
        for label in self.y.labels() {
            let (y, text) = (percent(1.0 - label.position), escape::text(&label.text));
            out += &horizontal_line("grid", &y);
            let _ = write!(out, "<text class=\"tick\" x=\"-8\" y=\"{y}\" dy=\"4\" text-anchor=\"end\">{text}</text>");
        }
        out.extend(ticks.iter().map(|label| svg::x_tick(label, self.has_x_labels)));
        out = out + &horizontal_line("axis", "100%") + &self.background;
        // Horizontal lines are below the paths, so that a path along a limit is visible.
        out.extend(self.horizontal.iter().map(|line| line.horizontal_line(&self.y.scale)));
        if !self.paths.is_empty() {
            let _ = write!(
                out,
                "<svg viewBox=\"0 0 {SIZE} {SIZE}\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\">{}</svg>",
                self.paths
            );
        }
        // Labels are after all lines, so that no line crosses a label.
        out.extend(vertical.clone().map(|(line, position)| line.vertical_line(&self.x.scale, *position)));
        let vertical = vertical.filter(|(line, _)| !line.label.is_empty());
        out.extend(vertical.map(|(line, position)| line.label_above(&self.x.scale, *position)));
        let horizontal = horizontal.filter(|(line, _)| !line.label.is_empty());
        out.extend(horizontal.map(|(line, position)| line.label_at_end(*position)));
        out = out + &self.foreground + "</svg>";
        if self.has_x_labels {
            let _ = write!(out, "<p class=\"unit right\">{}</p>", escape::text(&self.x.label));
        }
        out + "</figure>\n"
    }
}

/// Splits series into several plots of at most `max` series each. `plot` gets the title and the series of each plot.
pub(super) fn split<T>(
    title: &str,
    scale: &str,
    series: &[T],
    max: usize,
    plot: impl Fn(&str, &[T]) -> String,
) -> String {
    let parts = series.len().div_ceil(max);
    let part = |(nth, series): (usize, &[T])| match parts {
        1 => plot(title, series),
        _ => plot(&format!("{title}, part {} of {parts}, on {scale}", nth + 1), series),
    };
    series.chunks(max).enumerate().map(part).collect()
}
