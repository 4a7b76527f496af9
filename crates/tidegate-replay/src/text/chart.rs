//! Charts made of letters: columns over time, small ones in a line, and bars.

use std::fmt::Write as _;

use crate::figures::short_count;

/// Eighths of a cell, from below.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// How wide a chart may be, its labels included.
pub(super) const WIDTH: usize = 78;

/// Values in one line, the largest as high as a letter: `▁▂▁█▁`. What is not 0 can be seen.
pub(super) fn sparkline(values: &[u64]) -> String {
    let most = values.iter().copied().max().unwrap_or(0);
    values.iter().map(|value| EIGHTHS[eighths(*value, most, 8)]).collect()
}

/// How many of `steps` steps a value of at most `most` takes; at least one if it is not 0.
fn eighths(value: u64, most: u64, steps: usize) -> usize {
    let scaled = u128::from(value) * steps as u128;
    usize::try_from(scaled.div_ceil(u128::from(most.max(1)))).unwrap_or(steps).min(steps)
}

/// Makes at most `most` values of more, each from as many neighbours, and tells how many.
pub(super) fn gathered(values: &[u64], most: usize, join: impl Fn(u64, u64) -> u64) -> (Vec<u64>, usize) {
    let several = values.len().div_ceil(most).max(1);
    (values.chunks(several).map(|chunk| chunk.iter().copied().fold(0, &join)).collect(), several)
}

/// Columns over time with an axis at the left; below, a line that shows `marks` in the same columns.
pub(super) fn columns(values: &[u64], rows: usize) -> String {
    let most = values.iter().copied().max().unwrap_or(0);
    let label = |value: u64| -> String {
        #[expect(clippy::cast_precision_loss, reason = "a label")]
        let value = value as f64;
        format!("{:>6}", short_count(value))
    };
    let mut out = String::new();
    for row in (0..rows).rev() {
        let axis = if row == rows - 1 { label(most) } else { " ".repeat(6) };
        let cell = |value: &u64| {
            let filled = eighths(*value, most, rows * 8).saturating_sub(row * 8).min(8);
            EIGHTHS[filled]
        };
        let line: String = values.iter().map(cell).collect();
        let _ = writeln!(out, "{}", format!("{axis} ┤{line}").trim_end());
    }
    let _ = writeln!(out, "{} ┼{}", label(0), "─".repeat(values.len()));
    out
}

/// A bar of at most `width` cells for a share of 0 to 1; what is not 0 can be seen.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a few cells")]
pub(super) fn bar(share: f64, width: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).ceil() as usize;
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::{bar, columns, gathered, sparkline};

    #[test]
    fn what_is_not_nothing_is_seen_and_the_most_is_full() {
        assert_eq!(sparkline(&[0, 1, 50, 100]), " ▁▄█");
        assert_eq!(sparkline(&[0, 0]), "  ");
        assert_eq!(bar(0.0, 10), "");
        assert_eq!(bar(0.000_1, 10), "▏");
        assert_eq!(bar(1.0, 3), "███");
        assert_eq!(columns(&[0, 4, 16], 2), "    16 ┤  █\n       ┤ ▄█\n     0 ┼───\n");
    }

    #[test]
    fn many_values_are_gathered_evenly() {
        assert_eq!(gathered(&[1, 2, 3, 4, 5], 2, |a, b| a + b), (vec![6, 9], 3));
        assert_eq!(gathered(&[1, 9, 3], 5, u64::max), (vec![1, 9, 3], 1));
        assert_eq!(gathered(&[], 5, u64::max), (vec![], 1));
    }
}
