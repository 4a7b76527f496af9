//! [`Table`]: rows of cells under headings, as text or as HTML.

use std::fmt::Write as _;

use crate::page::escape;

/// Rows of cells. The first cell names the row. Numbers are aligned to the right.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// Each heading, and whether the column holds numbers.
    columns: Vec<(String, bool)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with these headings. A heading that starts with `>` is for a column of numbers.
    pub(crate) fn new<S: AsRef<str>>(headings: impl IntoIterator<Item = S>) -> Self {
        let column = |heading: S| match heading.as_ref().strip_prefix('>') {
            Some(heading) => (heading.to_owned(), true),
            None => (heading.as_ref().to_owned(), false),
        };
        Self { columns: headings.into_iter().map(column).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Returns the table as lines of text.
    pub(crate) fn text(&self) -> String {
        let headings: Vec<String> = self.columns.iter().map(|(heading, _)| heading.clone()).collect();
        let rows = || std::iter::once(&headings).chain(&self.rows);
        let width = |i: usize| rows().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = String::new();
        for row in rows() {
            let mut line = String::new();
            for ((cell, (_, is_number)), width) in row.iter().zip(&self.columns).zip(&widths) {
                let _ = if *is_number { write!(line, "  {cell:>width$}") } else { write!(line, "  {cell:<width$}") };
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out
    }

    /// Returns the table as HTML. The cells must be HTML already.
    pub(crate) fn html(&self, caption: &str) -> String {
        let caption = escape::text(caption);
        let class = |is_number: bool| if is_number { " class=\"n\"" } else { "" };
        // A table that is too wide scrolls sideways. The tab index makes it reachable by keyboard.
        let mut out = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table>\
             <caption>{caption}</caption><thead><tr>"
        );
        for (heading, is_number) in &self.columns {
            let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(*is_number), escape::text(heading));
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for (i, (cell, (_, is_number))) in row.iter().zip(&self.columns).enumerate() {
                let _ = match i {
                    0 => write!(out, "<th scope=\"row\">{cell}</th>"),
                    _ => write!(out, "<td{}>{cell}</td>", class(*is_number)),
                };
            }
            out.push_str("</tr>");
        }
        out + "</tbody></table></div>\n"
    }
}
