//! [`Table`]: columns that line up.

use std::fmt;

/// Rows of cells under a head; numbers to the right, names to the left.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug, Clone)]
struct Column {
    head: String,
    to_the_right: bool,
}

impl Table {
    /// A table whose columns have these heads; one that begins with `>` is set to the right.
    pub fn new(heads: &[&str]) -> Self {
        let column = |head: &&str| match head.strip_prefix('>') {
            Some(head) => Column { head: head.to_owned(), to_the_right: true },
            None => Column { head: (*head).to_owned(), to_the_right: false },
        };
        Self { columns: heads.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |i: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count());
            cells.max().unwrap_or(0).max(self.columns[i].head.chars().count())
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let heads: Vec<String> = self.columns.iter().map(|column| column.head.clone()).collect();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, column), width) in row.iter().zip(&self.columns).zip(&widths) {
                let gap = " ".repeat(width - cell.chars().count());
                line.push_str("  ");
                if column.to_the_right {
                    line.push_str(&gap);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&gap);
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
