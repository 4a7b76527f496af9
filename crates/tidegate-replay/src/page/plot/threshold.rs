//! [`ThresholdLine`]: a line at one value of an axis, and the position of its label above the area.

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
    /// Whether the line reaches up to the label.
    pub(super) has_leader: bool,
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
        let above = if self.label.is_empty() || !position.has_leader { 0 } else { (position.row + 1) * LABEL_ROW - 2 };
        svg::vertical_line(&self.class(), &svg::percent(x.position(self.value)), above)
    }

    /// Returns the label of a vertical line.
    pub(super) fn label_above(&self, x: &Scale, position: LabelPosition) -> String {
        self.label_at(x.position(self.value), position)
    }

    /// Returns the label of a horizontal line, at its right end. It is above the area, so that no data is behind it.
    pub(super) fn label_at_end(&self, position: LabelPosition) -> String {
        self.label_at(1.0, position)
    }

    fn label_at(&self, x: f64, LabelPosition { row, is_left, .. }: LabelPosition) -> String {
        let (x, y, label) = (svg::percent(x), row * LABEL_ROW + 5, self.label());
        let (dx, anchor) = if is_left { (-4, "end") } else { (4, "start") };
        format!("<text class=\"mark\" x=\"{x}\" y=\"-{y}\" dx=\"{dx}\" text-anchor=\"{anchor}\">{label}</text>")
    }
}

/// A label above the area, before it has a position.
struct Label {
    /// Position of its line, 0 to 1.
    line: f64,
    width: f64,
    is_left: bool,
    has_leader: bool,
}

impl Label {
    fn extent(&self) -> (f64, f64) {
        if self.is_left { (self.line - self.width, self.line) } else { (self.line, self.line + self.width) }
    }

    /// Returns whether the line of another label would cross this label in the same row or below.
    fn is_crossed_by(&self, other: &Self) -> bool {
        let (from, to) = self.extent();
        other.has_leader && from < other.line && other.line < to
    }

    fn overlaps(&self, other: &Self) -> bool {
        let ((a, b), (c, d)) = (self.extent(), other.extent());
        a < d && c < b
    }
}

/// Returns positions of the labels of lines at these positions, such that no label overlaps another or the line of another, even on a
/// narrow page. A line reaches up to its label. So a label is above the labels of all lines that it is crossed by. Where that is
/// impossible, a line ends at the area.
pub(super) fn label_positions(lines: &[(f64, &str)]) -> Vec<LabelPosition> {
    let label = |(line, text): &(f64, &str)| {
        let width = as_f64(text.chars().count().min(LABEL) as u64 + 2) * CHARACTER;
        Label { line: *line, width, is_left: line + width > 1.0 && *line > 0.5, has_leader: true }
    };
    let mut labels: Vec<Label> = lines.iter().map(label).collect();
    let mut order: Vec<usize> = (0..lines.len()).filter(|i| !lines[*i].1.is_empty()).collect();
    order.sort_by(|a, b| lines[*b].0.total_cmp(&lines[*a].0));
    for i in order.clone() {
        // Two labels that each cross the line of the other must be on the same side of their lines.
        let crosses = |j: &usize| labels[*j].is_crossed_by(&labels[i]) && labels[i].is_crossed_by(&labels[*j]);
        let is_mutual = !labels[i].is_left && order.iter().any(crosses);
        labels[i].is_left |= is_mutual && labels[i].line >= labels[i].width;
    }
    let mut rows: Vec<Option<u32>> = vec![None; lines.len()];
    while !order.is_empty() {
        // A label gets its row after the labels of the lines that cross it.
        let is_next = |i: &usize| order.iter().all(|j| i == j || !labels[*i].is_crossed_by(&labels[*j]));
        let next = order.iter().position(is_next);
        let i = order.remove(next.unwrap_or(0));
        if next.is_none() {
            let crossing: Vec<usize> = order.iter().copied().filter(|j| labels[i].is_crossed_by(&labels[*j])).collect();
            for j in crossing {
                labels[j].has_leader = false;
            }
        }
        let placed = || rows.iter().zip(&labels).filter_map(|(row, label)| Some(((*row)?, label)));
        let crossing = placed().filter(|(_, other)| labels[i].is_crossed_by(other)).map(|(row, _)| row + 1).max();
        let mut row = crossing.unwrap_or(0);
        while placed().any(|(other_row, other)| other_row == row && labels[i].overlaps(other)) {
            row += 1;
        }
        rows[i] = Some(row);
    }
    let position = |(row, label): (&Option<u32>, &Label)| LabelPosition {
        row: row.unwrap_or(0),
        is_left: label.is_left,
        has_leader: label.has_leader,
    };
    rows.iter().zip(&labels).map(position).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CHARACTER, LabelPosition, label_positions};

    #[test]
    fn labels_are_above_the_lines_that_cross_them() {
        let positions = |lines: &[f64]| {
            let lines: Vec<(f64, &str)> = lines.iter().map(|line| (*line, "p99: 37/1m")).collect();
            label_positions(&lines).iter().map(|position| (position.row, position.is_left)).collect::<Vec<_>>()
        };
        assert_eq!(positions(&[0.1, 0.12, 0.95]), [(1, false), (0, false), (0, true)]);
        assert_eq!(positions(&[0.85, 0.9, 0.95]), [(0, true), (1, true), (2, true)], "the leftmost is the lowest");
        assert_eq!(positions(&[0.7, 0.9]), [(0, true), (1, true)]);
    }

    proptest! {
        #[test]
        fn no_label_overlaps_a_label_or_the_line_of_another(
            lines in prop::collection::vec((0.0..=1.0_f64, 3..13_usize), 1..9),
        ) {
            let texts: Vec<String> = lines.iter().map(|(_, len)| "x".repeat(*len)).collect();
            let lines: Vec<(f64, &str)> = lines.iter().zip(&texts).map(|((line, _), text)| (*line, text.as_str())).collect();
            let positions = label_positions(&lines);
            let extent = |i: usize| {
                #[expect(clippy::cast_precision_loss, reason = "a few characters")]
                let width = (lines[i].1.len() + 2) as f64 * CHARACTER;
                let line = lines[i].0;
                if positions[i].is_left { (line - width, line) } else { (line, line + width) }
            };
            for (i, LabelPosition { row, .. }) in positions.iter().enumerate() {
                for (j, other) in positions.iter().enumerate().filter(|(j, _)| i != *j) {
                    let ((a, b), (c, d)) = (extent(i), extent(j));
                    prop_assert!(*row != other.row || a >= d || c >= b, "labels overlap: {:?} {:?}", lines, positions);
                    let is_crossed = other.has_leader && a < lines[j].0 && lines[j].0 < b;
                    prop_assert!(!is_crossed || other.row < *row, "a line crosses a label: {:?} {:?}", lines, positions);
                }
            }
        }
    }
}
