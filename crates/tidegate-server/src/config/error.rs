//! [`ConfigError`]: an error in a configuration, its place, and what would be right.

use std::ops::Range;

use super::sources::Setting;

/// An error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default())]
#[non_exhaustive]
pub struct ConfigError {
    /// The file, variable or flag at fault.
    pub origin: String,
    /// The line in the file, if known.
    pub line: Option<usize>,
    /// What was wrong and what would be right.
    pub message: String,
    /// Whether the file could not be read.
    pub unreadable: bool,
}

impl ConfigError {
    pub(crate) fn new(origin: impl Into<String>, message: impl Into<String>) -> Self {
        Self { origin: origin.into(), line: None, message: message.into(), unreadable: false }
    }
}

/// The text of a configuration, for errors that name a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) name: &'a str,
    /// Empty if errors should not name a line.
    pub(super) text: &'a str,
    /// The settings that replace those of the text.
    pub(super) replaced_by: &'a [Setting],
}

impl Origin<'_> {
    /// Returns an error at a place in the text.
    pub(super) fn error(&self, span: Option<Range<usize>>, message: impl Into<String>) -> ConfigError {
        let line_of = |start: usize| self.text.get(..start).map_or(1, |before| before.matches('\n').count() + 1);
        let line = span.filter(|_| !self.text.is_empty()).map(|span| line_of(span.start));
        ConfigError { line, ..ConfigError::new(self.name, message) }
    }

    /// Returns an error about a key of a table: with its line in the file, or with the name of the setting that replaces it.
    pub(super) fn error_at(&self, table: &str, key: &str, message: impl Into<String>) -> ConfigError {
        if let Some(setting) = self.replaced_by.iter().find(|setting| setting.table == table && setting.key == key) {
            return ConfigError::new(&setting.name, message);
        }
        let mut current = "";
        let mut line_number = None;
        for (number, line) in self.text.lines().enumerate() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix('[') {
                current = name.split(']').next().unwrap_or("").trim();
            } else if current == table && line.split('=').next().is_some_and(|name| name.trim() == key) {
                line_number = Some(number + 1);
            }
        }
        ConfigError { line: line_number, ..ConfigError::new(self.name, message) }
    }

    /// Returns an error of the parser, with a suggestion if a key is unknown.
    pub(super) fn parser_error(&self, error: &toml::de::Error) -> ConfigError {
        self.error(error.span(), unknown_key(error.message()).unwrap_or_else(|| error.message().to_owned()))
    }
}

/// Turns "unknown field `x`, expected one of `a`, `b`" into a suggestion.
fn unknown_key(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown field `")?;
    let (unknown, rest) = rest.split_once('`')?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let listed = known.join(", ");
    Some(match nearest(unknown, &known) {
        Some(near) => format!("unknown key `{unknown}`: did you mean `{near}`? Known here: {listed}"),
        None if known.is_empty() => format!("unknown key `{unknown}`: none is known here"),
        None => format!("unknown key `{unknown}`: known here: {listed}"),
    })
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
