//! Charts of characters: columns over time, sparklines and bars.

use std::fmt::Write as _;

use crate::formatting::short_count;

/// Cells that are filled by eighths, from below.
pub(super) const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Maximum width of a chart with its labels.
pub(super) const WIDTH: usize = 78;

/// Draws values in one line: `▁▂▁█▁`. A positive value is always visible.
pub(super) fn sparkline(values: &[u64]) -> String {
    let max = values.iter().copied().max().unwrap_or(0);
    values.iter().map(|value| EIGHTHS[scaled(*value, max, 8)]).collect()
}

/// Scales a value of at most `max` to `steps`, rounded up.
fn scaled(value: u64, max: u64, steps: usize) -> usize {
    let scaled = u128::from(value) * steps as u128;
    usize::try_from(scaled.div_ceil(u128::from(max.max(1)))).unwrap_or(steps).min(steps)
}

/// Merges neighbouring values to at most `max` sums.
pub(super) fn merged(values: &[u64], max: usize) -> Vec<u64> {
    values.chunks(values.len().div_ceil(max).max(1)).map(|chunk| chunk.iter().sum()).collect()
}

/// Draws columns over time, with an axis at the left.
pub(super) fn columns(values: &[u64], rows: usize) -> String {
    let max = values.iter().copied().max().unwrap_or(0);
    let label = |value: u64| -> String {
        #[expect(clippy::cast_precision_loss, reason = "a label")]
        let value = value as f64;
        format!("{:>6}", short_count(value))
    };
    let mut out = String::new();
    for row in (0..rows).rev() {
        let axis = if row == rows - 1 { label(max) } else { " ".repeat(6) };
        let cell = |value: &u64| {
            let filled = scaled(*value, max, rows * 8).saturating_sub(row * 8).min(8);
            EIGHTHS[filled]
        };
        let line: String = values.iter().map(cell).collect();
        let _ = writeln!(out, "{}", format!("{axis} ┤{line}").trim_end());
    }
    let _ = writeln!(out, "{} ┼{}", label(0), "─".repeat(values.len()));
    out
}

/// Draws a bar of at most `width` cells for a share of 0 to 1. A positive share is always visible.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a few cells")]
pub(super) fn bar(share: f64, width: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).ceil() as usize;
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::{bar, columns, merged, sparkline};

    #[test]
    fn positive_values_are_visible_and_the_maximum_is_full() {
        assert_eq!(sparkline(&[0, 1, 50, 100]), " ▁▄█");
        assert_eq!(sparkline(&[0, 0]), "  ");
        assert_eq!(bar(0.0, 10), "");
        assert_eq!(bar(0.000_1, 10), "▏");
        assert_eq!(bar(1.0, 3), "███");
        assert_eq!(columns(&[0, 4, 16], 2), "    16 ┤  █\n       ┤ ▄█\n     0 ┼───\n");
    }

    #[test]
    fn many_values_are_merged_evenly() {
        assert_eq!(merged(&[1, 2, 3, 4, 5], 2), [6, 9]);
        assert_eq!(merged(&[1, 9, 3], 5), [1, 9, 3]);
        assert!(merged(&[], 5).is_empty());
    }
}
