//! Tables as text, and the numbers in them.

use std::fmt;

use comfy_table::{Cell, CellAlignment, Table, presets};

/// A table that is built column by column.
pub(crate) struct Columns<R> {
    rows: Vec<R>,
    columns: Vec<(String, CellAlignment, Vec<String>)>,
}

impl<R> Columns<R> {
    /// A table of these rows without a column.
    pub(crate) fn of(rows: impl IntoIterator<Item = R>) -> Self {
        Self { rows: rows.into_iter().collect(), columns: Vec::new() }
    }

    /// Adds a column of texts, aligned to the left.
    pub(crate) fn text(self, title: &str, cell: impl Fn(&R) -> String) -> Self {
        self.column(title, CellAlignment::Left, cell)
    }

    /// Adds a column of numbers, aligned to the right.
    pub(crate) fn number(self, title: &str, cell: impl Fn(&R) -> String) -> Self {
        self.column(title, CellAlignment::Right, cell)
    }

    fn column(mut self, title: &str, alignment: CellAlignment, cell: impl Fn(&R) -> String) -> Self {
        self.columns.push((title.to_owned(), alignment, self.rows.iter().map(cell).collect()));
        self
    }

    /// Writes an empty line, the title and the table; nothing if there is no row.
    pub(crate) fn write(self, out: &mut fmt::Formatter<'_>, title: &str) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let columns = || self.columns.iter();
        table.set_header(columns().map(|(title, alignment, _)| Cell::new(title).set_alignment(*alignment)));
        for row in 0..self.rows.len() {
            table.add_row(columns().map(|(_, alignment, cells)| Cell::new(&cells[row]).set_alignment(*alignment)));
        }
        writeln!(out, "\n{title}\n{}", table.trim_fmt())
    }
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

    struct Rates(Vec<(&'static str, usize)>);

    impl fmt::Display for Rates {
        fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            Columns::of(&self.0)
                .text("name", |(name, _)| (*name).to_owned())
                .number("/s", |(_, rate)| grouped(*rate))
                .write(out, "Rates")
        }
    }

    #[test]
    fn texts_are_aligned_to_the_left_and_numbers_to_the_right() {
        let rates = Rates(vec![("first", 1_000), ("two", 5)]);
        assert_eq!(rates.to_string(), "\nRates\n name      /s\n first  1,000\n two        5\n");
        assert_eq!(Rates(Vec::new()).to_string(), "");
    }

    #[test]
    fn long_numbers_are_grouped() {
        assert_eq!(grouped(1), "1");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }
}
