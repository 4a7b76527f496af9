//! The legend: a list above the plot that wraps like text.

use super::Style;
use crate::page::escape;

/// Symbol of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Symbol {
    Line,
    Area,
    Bar,
    Band,
}

/// Maximum length of a name. A line that several series share has all their names.
const NAME: usize = 100;

/// Entries in the order of drawing.
#[derive(Debug, Clone, Default)]
pub(super) struct Legend(Vec<(Symbol, Style, String)>);

impl Legend {
    /// Adds an entry. Ignores an entry without a name, and an entry that exists.
    pub(super) fn add(&mut self, symbol: Symbol, style: Style, name: &str) {
        let entry = (symbol, style, name.to_owned());
        if !name.is_empty() && !self.0.contains(&entry) {
            self.0.push(entry);
        }
    }

    pub(super) fn html(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let names: Vec<&str> = self.0.iter().map(|(_, _, name)| name.as_str()).collect();
        let entry = |((symbol, style, _), name): (&(Symbol, Style, String), String)| {
            let class = style.class();
            let rect = |class: &str| format!("<rect class=\"{class}\" width=\"26\" height=\"12\"/>");
            let line = |y: u32| format!("<line class=\"line {class}\" x1=\"0\" x2=\"26\" y1=\"{y}\" y2=\"{y}\"/>");
            let drawn = match symbol {
                Symbol::Line => line(6),
                Symbol::Area => rect(&format!("area {class}")) + &line(1),
                Symbol::Bar => rect(&format!("bar {class}")),
                Symbol::Band => rect("band"),
            };
            format!(
                "<li><svg class=\"sample\" width=\"26\" height=\"12\" aria-hidden=\"true\">{drawn}</svg><span>{name}</span></li>"
            )
        };
        let entries: String = self.0.iter().zip(escape::names(&names, NAME)).map(entry).collect();
        format!("<ul class=\"legend\">{entries}</ul>")
    }
}
