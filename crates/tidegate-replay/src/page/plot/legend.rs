//! The legend: a list beside the plot that breaks into lines as text does.

use super::Look;
use crate::page::escape;

/// What an entry's sample looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sample {
    Line,
    Area,
    Bar,
    Band,
}

/// How many characters of a name are shown; several series that run as one have all their names.
const NAME: usize = 100;

/// Entries in the order in which they were drawn.
#[derive(Debug, Clone, Default)]
pub(super) struct Legend(Vec<(Sample, Look, String)>);

impl Legend {
    /// Adds an entry; one without a name, or that is there already, is left out.
    pub(super) fn add(&mut self, sample: Sample, look: Look, name: &str) {
        let entry = (sample, look, name.to_owned());
        if !name.is_empty() && !self.0.contains(&entry) {
            self.0.push(entry);
        }
    }

    pub(super) fn html(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let entry = |(sample, look, name): &(Sample, Look, String)| {
            let class = look.class();
            let line = format!("<line class=\"line {class}\" x1=\"0\" x2=\"26\" y1=\"6\" y2=\"6\"/>");
            let drawn = match sample {
                Sample::Line => line,
                Sample::Area => format!(
                    "<rect class=\"area {class}\" width=\"26\" height=\"12\"/><line class=\"line {class}\" x1=\"0\" x2=\"26\" y1=\"1\" y2=\"1\"/>"
                ),
                Sample::Bar => format!("<rect class=\"bar {class}\" width=\"26\" height=\"12\"/>"),
                Sample::Band => "<rect class=\"band\" width=\"26\" height=\"12\"/>".to_owned(),
            };
            format!(
                "<li><svg class=\"sample\" width=\"26\" height=\"12\" aria-hidden=\"true\">{drawn}</svg><span>{}</span></li>",
                escape::name(name, NAME)
            )
        };
        format!("<ul class=\"legend\">{}</ul>", self.0.iter().map(entry).collect::<String>())
    }
}
