//! Parts of SVG that all plots share.

use super::axis::{RIGHT_ALIGNED, TickLabel};
use crate::{formatting::clip, page::escape};

/// Formats a number with at most two decimal places.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a position as a percentage.
pub(super) fn percent(position: f64) -> String {
    format!("{}%", short(position * 100.0))
}

pub(super) fn horizontal_line(class: &str, y: &str) -> String {
    format!("<line class=\"{class}\" x1=\"0\" x2=\"100%\" y1=\"{y}\" y2=\"{y}\"/>")
}

/// Returns a line that starts `above` pixels above the area.
pub(super) fn vertical_line(class: &str, x: &str, above: u32) -> String {
    format!("<line class=\"{class}\" x1=\"{x}\" x2=\"{x}\" y1=\"-{above}\" y2=\"100%\"/>")
}

/// Starts a figure: its caption, its legend and the name of the vertical axis.
pub(super) fn figure(title: &str, legend: &str, unit: &str) -> String {
    let caption = |title: &str| format!("<figcaption>{}</figcaption>", escape::name(title, 120));
    let title = if title.is_empty() { String::new() } else { caption(title) };
    let unit = if unit.is_empty() { String::new() } else { format!("<p class=\"unit\">{}</p>", escape::text(unit)) };
    format!("<figure class=\"plot\">{title}{legend}{unit}")
}

/// Starts a picture with `above` pixels for labels above the area.
pub(super) fn open(title: &str, about: &str, height: u32, above: u32, class: &str) -> String {
    let label = [title, about].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
    let (label, margin) = (escape::text(&clip(&label, 300)), above + 8);
    format!(
        "<svg class=\"chart {class}\" role=\"img\" aria-label=\"{label}\" height=\"{height}\" style=\"margin-top:{margin}px\">"
    )
}

/// Returns a tick of the horizontal axis and its label.
pub(super) fn x_tick(label: &TickLabel, has_label: bool) -> String {
    let x = percent(label.position);
    let rank = match (label.is_minor, label.is_crowded) {
        (false, _) => "",
        (true, false) => " minor",
        (true, true) => " minor crowded",
    };
    let mut out = vertical_line(&format!("grid{rank}"), &x, 0);
    let anchor = if label.position > RIGHT_ALIGNED { "end" } else { "middle" };
    let text = |class: &str, dy: u32, text: &str| {
        let text = escape::text(&clip(text, 24));
        format!("<text class=\"{class}{rank}\" x=\"{x}\" y=\"100%\" dy=\"{dy}\" text-anchor=\"{anchor}\">{text}</text>")
    };
    if has_label {
        out += &text("tick", 17, &label.text);
        out += &label.below.as_ref().map(|below| text("tick day", 31, below)).unwrap_or_default();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 12.5, 100.0, 33.333].map(short), ["0", "12.5", "100", "33.33"]);
    }
}
