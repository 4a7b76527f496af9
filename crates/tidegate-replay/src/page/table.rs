//! [`Table`]: rows of cells with a caption, for eyes and for screen readers.

use std::fmt;

use super::escape;

/// Rows of cells under a head. The first cell of a row names it.
#[derive(Debug, Clone)]
pub struct Table {
    caption: String,
    columns: Vec<(String, bool)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table whose columns have these heads; one that begins with `>` holds numbers.
    pub fn new<S: AsRef<str>>(caption: impl Into<String>, heads: &[S]) -> Self {
        let column = |head: &S| match head.as_ref().strip_prefix('>') {
            Some(head) => (head.to_owned(), true),
            None => (head.as_ref().to_owned(), false),
        };
        Self { caption: caption.into(), columns: heads.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row of cells that are HTML already.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let caption = escape::text(&self.caption);
        let class = |number: bool| if number { " class=\"n\"" } else { "" };
        // A table that is too wide is moved sideways by itself; so it can be reached with keys.
        write!(f, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table>")?;
        write!(f, "<caption>{caption}</caption><thead><tr>")?;
        for (head, number) in &self.columns {
            write!(f, "<th scope=\"col\"{}>{}</th>", class(*number), escape::text(head))?;
        }
        write!(f, "</tr></thead><tbody>")?;
        for row in &self.rows {
            write!(f, "<tr>")?;
            for (i, (cell, (_, number))) in row.iter().zip(&self.columns).enumerate() {
                match i {
                    0 => write!(f, "<th scope=\"row\">{cell}</th>")?,
                    _ => write!(f, "<td{}>{cell}</td>", class(*number))?,
                }
            }
            write!(f, "</tr>")?;
        }
        writeln!(f, "</tbody></table></div>")
    }
}
