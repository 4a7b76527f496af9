//! A [`Plot`] as HTML: a figure with a caption, a legend and the picture.
//!
//! The picture is the area between the axes, and only that; numbers and labels stand around it. So places are percentages of
//! it, whatever its size turns out to be.

use std::fmt;

use super::axis::PULLED_IN;
use super::shape::{SIZE, short};
use super::{Plot, Rule, rules};
use crate::page::escape;

/// The height of a row of labels above the area, in pixels.
pub(super) const ROW: u32 = 16;

impl fmt::Display for Plot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let legend = if self.legend_shown { self.legend.html() } else { String::new() };
        figure(f, &self.title, &legend, &self.y.label)?;
        let upright: Vec<&Rule> = self.rules.iter().filter(|rule| rule.upright).collect();
        let spots = rules::spots(upright.iter().copied(), &self.x.scale);
        let rows = upright.iter().zip(&spots).filter(|(rule, _)| !rule.label.is_empty());
        let rows = rows.map(|(_, spot)| u32::try_from(spot.row).unwrap_or(0) + 1).max().unwrap_or(0);
        let two_lines = self.x.labels().iter().any(|label| label.below.is_some());
        let class = match (self.x_labels, two_lines) {
            (false, _) => "bare",
            (true, false) => "low",
            (true, true) => "lower",
        };
        open(f, &self.title, &self.about, self.height, rows * ROW, class)?;
        self.grid(f)?;
        self.data(f)?;
        // Labels after all lines, so that none is crossed.
        for (rule, spot) in upright.iter().zip(&spots) {
            self.upright(f, rule, *spot)?;
        }
        for (rule, spot) in upright.iter().zip(&spots).filter(|(rule, _)| !rule.label.is_empty()) {
            self.above(f, rule, *spot)?;
        }
        for rule in self.rules.iter().filter(|rule| !rule.upright) {
            self.beside(f, rule)?;
        }
        self.pointed_at(f)?;
        write!(f, "</svg>")?;
        if self.x_labels {
            write!(f, "<p class=\"unit right\">{}</p>", escape::text(&self.x.label))?;
        }
        writeln!(f, "</figure>")
    }
}

impl Plot {
    fn grid(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for label in self.y.labels() {
            let y = percent(1.0 - label.place);
            write!(f, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y}\" y2=\"{y}\"/>")?;
            write!(
                f,
                "<text class=\"tick\" x=\"-8\" y=\"{y}\" dy=\"4\" text-anchor=\"end\">{}</text>",
                escape::text(&label.text)
            )?;
        }
        for label in self.x.labels() {
            x_label(f, &label, self.x_labels, self.x.all_names().is_none())?;
        }
        write!(f, "<line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"100%\" y2=\"100%\"/>")
    }

    fn data(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (x, y) = (&self.x.scale, &self.y.scale);
        for (from, to) in &self.bands {
            let (from, to) = (x.place(*from), x.place(*to));
            write!(
                f,
                "<rect class=\"band\" x=\"{}\" width=\"{}\" y=\"0\" height=\"100%\"/>",
                percent(from),
                percent(to - from)
            )?;
        }
        for bar in &self.bars {
            let (left, right) = (x.place(bar.x.0), x.place(bar.x.1));
            let (top, bottom) = (1.0 - y.place(bar.y.1), 1.0 - y.place(bar.y.0));
            let (left, width, top, height) =
                (percent(left), percent(right - left), percent(top), percent(bottom - top));
            let class = bar.look.class();
            write!(f, "<rect class=\"bar {class}\" x=\"{left}\" width=\"{width}\" y=\"{top}\" height=\"{height}\"")?;
            match bar.title.as_str() {
                "" => write!(f, "/>")?,
                title => write!(f, "><title>{}</title></rect>", escape::text(title))?,
            }
        }
        // Below lines, so that one that runs along a limit is still seen.
        for rule in self.rules.iter().filter(|rule| !rule.upright) {
            let (y, class) = (percent(1.0 - y.place(rule.value)), rule.look.class());
            write!(f, "<line class=\"rule {class}\" x1=\"0\" x2=\"100%\" y1=\"{y}\" y2=\"{y}\"/>")?;
        }
        if !self.shapes.is_empty() {
            write!(
                f,
                "<svg viewBox=\"0 0 {SIZE} {SIZE}\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\">"
            )?;
            for shape in &self.shapes {
                write!(f, "{}", shape.svg(x, y))?;
            }
            write!(f, "</svg>")?;
        }
        Ok(())
    }

    fn upright(&self, f: &mut fmt::Formatter<'_>, rule: &Rule, spot: rules::Spot) -> fmt::Result {
        let (x, class) = (percent(self.x.scale.place(rule.value)), rule.look.class());
        let row = u32::try_from(spot.row).unwrap_or(0);
        let top = if rule.label.is_empty() { 0 } else { row * ROW + ROW - 2 };
        write!(f, "<line class=\"rule {class}\" x1=\"{x}\" x2=\"{x}\" y1=\"-{top}\" y2=\"100%\"/>")
    }

    fn above(&self, f: &mut fmt::Formatter<'_>, rule: &Rule, spot: rules::Spot) -> fmt::Result {
        let x = percent(self.x.scale.place(rule.value));
        let y = u32::try_from(spot.row).unwrap_or(0) * ROW + 5;
        let (dx, anchor) = if spot.to_the_left { (-4, "end") } else { (4, "start") };
        let label = escape::text(&escape::clip(&rule.label, rules::LABEL));
        write!(f, "<text class=\"mark\" x=\"{x}\" y=\"-{y}\" dx=\"{dx}\" text-anchor=\"{anchor}\">{label}</text>")
    }

    fn beside(&self, f: &mut fmt::Formatter<'_>, rule: &Rule) -> fmt::Result {
        let place = self.y.scale.place(rule.value);
        let y = percent(1.0 - place);
        // Above the line, unless there is no room.
        let dy = if place > 0.85 { 14 } else { -5 };
        let label = escape::text(&escape::clip(&rule.label, rules::LABEL));
        write!(f, "<text class=\"mark\" x=\"100%\" y=\"{y}\" dx=\"-4\" dy=\"{dy}\" text-anchor=\"end\">{label}</text>")
    }

    fn pointed_at(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (x, y) = (&self.x.scale, &self.y.scale);
        for hover in &self.hovers {
            let (from, to) = (x.place(hover.from), x.place(hover.to));
            let lines: Vec<String> = hover.lines.iter().map(|line| escape::text(line)).collect();
            let (from, width, lines) = (percent(from), percent(to - from), lines.join("\n"));
            write!(
                f,
                "<rect class=\"hover\" x=\"{from}\" width=\"{width}\" y=\"0\" height=\"100%\"><title>{lines}</title></rect>"
            )?;
        }
        for dot in &self.dots {
            let (cx, cy, class) = (percent(x.place(dot.x)), percent(1.0 - y.place(dot.y)), dot.look.class());
            let title = escape::text(&dot.title);
            write!(
                f,
                "<circle class=\"dot {class}\" cx=\"{cx}\" cy=\"{cy}\" r=\"4.5\"><title>{title}</title></circle>"
            )?;
        }
        Ok(())
    }
}

/// Begins a figure: its caption, its legend and the name of the vertical axis.
pub(super) fn figure(f: &mut fmt::Formatter<'_>, title: &str, legend: &str, unit: &str) -> fmt::Result {
    write!(f, "<figure class=\"plot\">")?;
    if !title.is_empty() {
        write!(f, "<figcaption>{}</figcaption>", escape::name(title, 120))?;
    }
    write!(f, "{legend}")?;
    if unit.is_empty() { Ok(()) } else { write!(f, "<p class=\"unit\">{}</p>", escape::text(unit)) }
}

/// Begins a picture.
pub(super) fn open(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    about: &str,
    height: u32,
    above: u32,
    class: &str,
) -> fmt::Result {
    let said = [title, about].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
    let said = escape::text(&escape::clip(&said, 300));
    write!(
        f,
        "<svg class=\"chart {class}\" role=\"img\" aria-label=\"{said}\" height=\"{height}\" style=\"margin-top:{}px\">",
        above + 8
    )
}

/// A tick of the horizontal axis and its label.
pub(super) fn x_label(f: &mut fmt::Formatter<'_>, label: &super::axis::Label, shown: bool, grid: bool) -> fmt::Result {
    let x = percent(label.place);
    let rank = match (label.minor, label.crowded) {
        (false, _) => "",
        (true, false) => " minor",
        (true, true) => " minor crowded",
    };
    if grid {
        write!(f, "<line class=\"grid{rank}\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"100%\"/>")?;
    }
    if !shown {
        return Ok(());
    }
    let anchor = if label.place > PULLED_IN { "end" } else { "middle" };
    let text = escape::text(&escape::clip(&label.text, 24));
    write!(f, "<text class=\"tick{rank}\" x=\"{x}\" y=\"100%\" dy=\"17\" text-anchor=\"{anchor}\">{text}</text>")?;
    if let Some(below) = &label.below {
        let below = escape::text(below);
        write!(
            f,
            "<text class=\"tick day{rank}\" x=\"{x}\" y=\"100%\" dy=\"31\" text-anchor=\"{anchor}\">{below}</text>"
        )?;
    }
    Ok(())
}

/// A place as a percentage.
pub(super) fn percent(place: f64) -> String {
    format!("{}%", short(place * 100.0))
}
