//! Tables as text, and the numbers in them.

use comfy_table::{Cell, CellAlignment, Table, presets};

/// The title of a column, and its cell in a row.
pub(crate) type Column<'a, R> = (&'a str, fn(&R) -> String);

/// A titled table with an empty line above it, or nothing if there is no row. The first `names` columns are text, the
/// others numbers.
pub(crate) fn section<R>(
    title: &str,
    names: usize,
    rows: impl IntoIterator<Item = R>,
    columns: &[Column<'_, R>],
) -> String {
    let header = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
    let cells = |row: R| columns.iter().map(|(_, cell)| cell(&row)).collect();
    grid(title, names, header, rows.into_iter().map(cells).collect())
}

/// The same as [`section`] for rows of cells.
pub(crate) fn grid(title: &str, names: usize, header: Vec<String>, rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let align = |column| {
        if column < names { CellAlignment::Left } else { CellAlignment::Right }
    };
    let cells = header.into_iter().enumerate();
    table.set_header(cells.map(|(column, title)| Cell::new(title).set_alignment(align(column))));
    for (column, settings) in table.column_iter_mut().enumerate() {
        settings.set_cell_alignment(align(column));
    }
    table.add_rows(rows);
    format!("\n{title}\n{}\n", table.trim_fmt())
}

/// A target as text, for example `<= 1.1`; empty if there is none.
pub(crate) fn target(sign: &str, wanted: impl Into<Option<f64>>) -> String {
    wanted.into().map_or_else(String::new, |wanted| format!("{sign} {wanted}"))
}

/// Whether a target was met; empty if there is none.
pub(crate) fn met_or_missed(is_met: impl Into<Option<bool>>) -> String {
    is_met.into().map_or("", |is_met| if is_met { "met" } else { "missed" }).to_owned()
}

/// A rate as a whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are small and positive")]
pub(crate) fn whole(rate: f64) -> String {
    grouped(rate.round() as usize)
}

/// The lowest value.
pub(crate) fn lowest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The highest value.
pub(crate) fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// `1000000` as `1,000,000`.
pub(crate) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!(grouped(1), "1");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }
}
