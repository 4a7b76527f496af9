//! [`ThresholdLine`]: a line at one value of an axis, and the position of its label.

use super::{LABEL_ROW, Style, as_f64, scale::Scale, svg};
use crate::{formatting::clip, page::escape};

#[derive(Debug, Clone)]
pub(super) struct ThresholdLine {
    pub(super) value: f64,
    pub(super) style: Style,
    pub(super) label: String,
}

/// Position of a label above the area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LabelPosition {
    /// Row 0 is next to the area.
    pub(super) row: u32,
    /// Whether the text ends at the line instead of starting there.
    pub(super) is_left: bool,
}

/// Maximum length of a label: half the width of the area on a phone.
const LABEL: usize = 20;
/// Width of a character as a fraction of the area's width on a phone.
pub(super) const CHARACTER: f64 = 6.6 / 280.0;

impl ThresholdLine {
    fn class(&self) -> String {
        format!("rule {}", self.style.class())
    }

    fn label(&self) -> String {
        escape::text(&clip(&self.label, LABEL))
    }

    pub(super) fn horizontal_line(&self, y: &Scale) -> String {
        svg::horizontal_line(&self.class(), &svg::percent(1.0 - y.position(self.value)))
    }

    pub(super) fn vertical_line(&self, x: &Scale, position: LabelPosition) -> String {
        let above = if self.label.is_empty() { 0 } else { (position.row + 1) * LABEL_ROW - 2 };
        svg::vertical_line(&self.class(), &svg::percent(x.position(self.value)), above)
    }

    pub(super) fn label_above(&self, x: &Scale, LabelPosition { row, is_left }: LabelPosition) -> String {
        let (x, y, label) = (svg::percent(x.position(self.value)), row * LABEL_ROW + 5, self.label());
        let (dx, anchor) = if is_left { (-4, "end") } else { (4, "start") };
        format!("<text class=\"mark\" x=\"{x}\" y=\"-{y}\" dx=\"{dx}\" text-anchor=\"{anchor}\">{label}</text>")
    }

    pub(super) fn label_beside(&self, y: &Scale) -> String {
        let position = y.position(self.value);
        // The label is above the line if it fits there.
        let (y, dy, label) = (svg::percent(1.0 - position), if position > 0.85 { 14 } else { -5 }, self.label());
        format!("<text class=\"mark\" x=\"100%\" y=\"{y}\" dx=\"-4\" dy=\"{dy}\" text-anchor=\"end\">{label}</text>")
    }
}

/// Returns positions of the labels that do not overlap, even on a narrow page. The rightmost label is the lowest, so that no line crosses
/// the label of a line to its left.
pub(super) fn label_positions(lines: &[ThresholdLine], x: &Scale) -> Vec<LabelPosition> {
    let mut rows: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut position = |line: &ThresholdLine| {
        let start = x.position(line.value);
        let width = as_f64(line.label.chars().count().min(LABEL) as u64 + 2) * CHARACTER;
        let is_left = start + width > 1.0 && start > 0.5;
        let taken = if is_left { (start - width, start) } else { (start, start + width) };
        if line.label.is_empty() {
            return LabelPosition { row: 0, is_left };
        }
        let is_free = |row: &Vec<(f64, f64)>| row.iter().all(|(from, to)| taken.1 < *from || taken.0 > *to);
        let row = rows.iter().position(is_free).unwrap_or(rows.len());
        if row == rows.len() {
            rows.push(Vec::new());
        }
        rows[row].push(taken);
        LabelPosition { row: u32::try_from(row).unwrap_or(0), is_left }
    };
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by(|a, b| lines[*b].value.total_cmp(&lines[*a].value));
    let mut positions = vec![LabelPosition { row: 0, is_left: false }; lines.len()];
    for i in order {
        positions[i] = position(&lines[i]);
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::{super::Scale, LabelPosition, Style, ThresholdLine, label_positions};

    #[test]
    fn overlapping_labels_are_in_separate_rows() {
        let line = |value| ThresholdLine { value, style: Style::Note, label: "p99: 37/1m".to_owned() };
        let positions = label_positions(&[10.0, 12.0, 95.0].map(line), &Scale::linear(0.0, 100.0));
        let expected = [(1, false), (0, false), (0, true)].map(|(row, is_left)| LabelPosition { row, is_left });
        assert_eq!(positions, expected);
    }
}
