//! [`ConfigError`]: what is wrong with a configuration, where, and what would be right.

use std::{fmt, ops::Range};

use super::environment::Said;

/// What is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, variable or flag at fault.
    pub origin: String,
    /// The line in the file, where there is one.
    pub line: Option<usize>,
    /// What was wrong and what would be right.
    pub message: String,
    /// Whether the file could not be read, whatever is in it.
    pub unreadable: bool,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.origin, self.message),
            None => write!(f, "{}: {}", self.origin, self.message),
        }
    }
}

impl std::error::Error for ConfigError {}

/// A text to point into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) name: &'a str,
    /// Empty where a line would tell nothing.
    pub(super) text: &'a str,
    /// What was said elsewhere in its place.
    pub(super) overridden: &'a [Said],
}

impl Origin<'_> {
    /// An error at a place in the text.
    pub(super) fn error(&self, span: Option<Range<usize>>, message: impl Into<String>) -> ConfigError {
        let line_of = |start: usize| self.text.get(..start).map_or(1, |before| before.matches('\n').count() + 1);
        let line = span.filter(|_| !self.text.is_empty()).map(|span| line_of(span.start));
        ConfigError { origin: self.name.to_owned(), line, message: message.into(), unreadable: false }
    }

    /// An error about a key of a table: in the line where the file has it, or under the name of what overrides it.
    pub(super) fn error_at(&self, table: &str, key: &str, message: impl Into<String>) -> ConfigError {
        if let Some(name) = self.overridden.iter().find(|said| said.is(table, key)).map(|said| &said.name) {
            return ConfigError { origin: name.clone(), line: None, message: message.into(), unreadable: false };
        }
        let mut current = "";
        let mut found = None;
        for (number, line) in self.text.lines().enumerate() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix('[') {
                current = name.split(']').next().unwrap_or("").trim();
            } else if current == table && line.split('=').next().is_some_and(|name| name.trim() == key) {
                found = Some(number + 1);
            }
        }
        ConfigError { origin: self.name.to_owned(), line: found, message: message.into(), unreadable: false }
    }

    /// What the parser says, in our words where it is about an unknown key.
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

/// The known name that was probably meant.
pub(crate) fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    // What is longer than a name can be is none, and comparing it would take long.
    if unknown.len() > 128 {
        return None;
    }
    let scored = known.iter().map(|name| (strsim::damerau_levenshtein(unknown, name), *name));
    let (distance, name) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + unknown.chars().count() / 4).then_some(name)
}
