//! [`ConfigError`]: an error in a configuration, its place, and what would be right.

use std::ops::Range;

use super::{
    parser_message::in_plain_words,
    place::{element_at, line_and_column, value_of},
    sources::Setting,
};

/// An error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}{}{}: {message}", after_colon(*line), after_colon(*column))]
#[non_exhaustive]
pub struct ConfigError {
    /// The file, variable or flag at fault.
    pub origin: String,
    /// The line in the file, if known.
    pub line: Option<usize>,
    /// The column in the line, if known.
    pub column: Option<usize>,
    /// What was wrong and what would be right.
    pub message: String,
    /// Whether the file could not be read.
    pub unreadable: bool,
}

impl ConfigError {
    pub(crate) fn new(origin: impl Into<String>, message: impl Into<String>) -> Self {
        Self { origin: origin.into(), line: None, column: None, message: message.into(), unreadable: false }
    }
}

fn after_colon(number: Option<usize>) -> String {
    number.map_or(String::new(), |number| format!(":{number}"))
}

/// The text of a configuration, for errors that name a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) name: &'a str,
    /// Empty if errors should not name a place.
    pub(super) text: &'a str,
    /// The settings that replace those of the text.
    pub(super) replaced_by: &'a [Setting],
}

impl Origin<'_> {
    /// Returns an error at a place in the text.
    pub(super) fn error(&self, span: Option<Range<usize>>, message: impl Into<String>) -> ConfigError {
        let place = span.filter(|_| !self.text.is_empty()).map(|span| line_and_column(self.text, span.start));
        let (line, column) = place.unzip();
        ConfigError { line, column, ..ConfigError::new(self.name, message) }
    }

    /// Returns an error about a key of a table: with its place in the file, or with the name of the setting that replaces it.
    pub(super) fn error_at(&self, table: &str, key: &str, message: impl Into<String>) -> ConfigError {
        if let Some(setting) = self.replaced_by.iter().find(|setting| setting.table == table && setting.key == key) {
            return ConfigError::new(&setting.name, message);
        }
        self.error(value_of(self.text, table, key), message)
    }

    /// Returns an error of the parser.
    pub(super) fn parser_error(&self, error: &toml::de::Error) -> ConfigError {
        let span = error.span().filter(|_| !self.text.is_empty());
        let message = in_plain_words(error.message(), self.text, span.as_ref());
        let element = span.as_ref().and_then(|list| element_at(self.text, list, &message));
        self.error(element.or(span), message)
    }
}

/// Returns the known name that is most similar, if one is.
pub(crate) fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    // No name is longer, and comparing long texts takes long.
    if unknown.len() > 128 {
        return None;
    }
    let scored = known.iter().map(|name| (strsim::damerau_levenshtein(unknown, name), *name));
    let (distance, name) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + unknown.chars().count() / 4).then_some(name)
}
