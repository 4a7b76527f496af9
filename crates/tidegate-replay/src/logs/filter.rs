//! [`Filters`]: select the lines to replay by their fields.

use std::{fmt, str::FromStr};

use regex::bytes::Regex;

use super::{
    client_key, expression,
    fields::{Field, Fields},
};

/// Maximum number of filters.
const MAX_FILTERS: usize = 64;

/// A condition on a line: `path=/api/`, `status=304`, `status=5xx`, `agent~(?i)bot`, `line~expression`.
///
/// - `path=/api/` matches all paths that start with `/api/`.
/// - `status=5xx` matches all statuses from 500 to 599.
/// - `FIELD=VALUE` matches if the whole field is the value.
/// - `FIELD~REGEX` matches if the field contains a match. `line` is the whole line.
#[derive(Debug, Clone)]
pub struct Filter {
    text: String,
    /// `None` is the whole line.
    field: Option<Field>,
    condition: Condition,
}

#[derive(Debug, Clone)]
enum Condition {
    StartsWith(Vec<u8>),
    Equals(Vec<u8>),
    /// First digit of a status.
    Class(u8),
    Matches(Regex),
}

impl Condition {
    fn holds(&self, text: &[u8]) -> bool {
        match self {
            Self::StartsWith(prefix) => text.starts_with(prefix),
            Self::Equals(value) => text == value,
            Self::Class(digit) => text.len() == 3 && text[0] == *digit,
            Self::Matches(regex) => regex.is_match(text),
        }
    }
}

/// Filters that are applied together.
///
/// A line is kept if it matches an `only` filter of each field that has one, and no `skip` filter.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    /// All filters, those of one field next to each other.
    only: Vec<Filter>,
    skip: Vec<Filter>,
}

impl Filters {
    /// Combines filters.
    ///
    /// # Errors
    /// If there are too many.
    pub fn new(mut only: Vec<Filter>, skip: Vec<Filter>) -> Result<Self, FilterError> {
        let count = only.len() + skip.len();
        if count > MAX_FILTERS {
            return Err(FilterError::TooMany { count });
        }
        only.sort_by_key(|filter| filter.field.as_ref().map(Field::name));
        Ok(Self { only, skip })
    }

    /// Returns whether there are no filters.
    pub(super) fn is_empty(&self) -> bool {
        self.only.is_empty() && self.skip.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = &Filter> {
        self.only.iter().chain(&self.skip)
    }

    /// Returns the filters as the user writes them: `--only path=/api/`.
    pub(super) fn texts(&self) -> Vec<String> {
        let text = |option: &str, filter: &Filter| format!("{option} {filter}");
        let only = self.only.iter().map(|filter| text("--only", filter));
        only.chain(self.skip.iter().map(|filter| text("--skip", filter))).collect()
    }

    /// Returns the field of each filter, without those of the whole line.
    pub(super) fn fields(&self) -> Vec<Field> {
        self.all().filter_map(|filter| filter.field.clone()).collect()
    }

    /// Returns the texts of the filters whose bit is not set in `found`.
    pub(super) fn without_field(&self, found: u64) -> Vec<String> {
        let missing = |(number, _): &(usize, &Filter)| found & (1 << number) == 0;
        self.all().enumerate().filter(missing).map(|(_, filter)| filter.to_string()).collect()
    }

    /// Returns whether a line is kept. The fields of the filters start at `first`. Sets the bit of each filter whose field the line has.
    pub(super) fn keep(&self, first: usize, line: &[u8], fields: &Fields, found: &mut u64) -> bool {
        let mut number = first;
        let mut bit = 1;
        let mut matches = |filter: &Filter| {
            let text = match filter.field {
                None => Some(line),
                Some(_) => {
                    number += 1;
                    fields.get(number - 1, line)
                }
            };
            *found |= if text.is_some() { bit } else { 0 };
            bit <<= 1;
            text.is_some_and(|text| filter.condition.holds(text))
        };
        // Every filter is evaluated, so that the number of its field is known.
        let mut is_kept = true;
        for same_field in self.only.chunk_by(|a, b| a.field == b.field) {
            let mut is_match = false;
            for filter in same_field {
                is_match |= matches(filter);
            }
            is_kept &= is_match;
        }
        for filter in &self.skip {
            is_kept &= !matches(filter);
        }
        is_kept
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let unknown = || FilterError::Unknown { text: text.chars().take(60).collect() };
        let at = text.find(['=', '~']).ok_or_else(unknown)?;
        let (name, operator, value) = (text[..at].trim(), &text[at..=at], &text[at + 1..]);
        if value.is_empty() {
            return Err(unknown());
        }
        let field = match name {
            "line" => None,
            name => Some(client_key::field(name).ok_or_else(unknown)?),
        };
        let condition = match (operator, &field) {
            ("~", _) => Condition::Matches(
                expression::compile(value).map_err(|error| FilterError::Regex { error: Box::new(error) })?,
            ),
            (_, None) => return Err(unknown()),
            (_, Some(Field::Path)) if !value.starts_with('/') => {
                return Err(FilterError::Path { value: value.to_owned() });
            }
            (_, Some(Field::Path)) => Condition::StartsWith(value.into()),
            (_, Some(Field::Status)) => status(value).ok_or_else(|| FilterError::Status { value: value.to_owned() })?,
            _ => Condition::Equals(value.into()),
        };
        Ok(Self { text: text.to_owned(), field, condition })
    }
}

/// Parses a status such as `304`, or a class of them such as `3xx`.
fn status(text: &str) -> Option<Condition> {
    match text.as_bytes() {
        [digit @ b'1'..=b'9', b'x' | b'X', b'x' | b'X'] => Some(Condition::Class(*digit)),
        [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => Some(Condition::Equals(text.into())),
        _ => None,
    }
}

/// Error of parsing a [`Filter`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The text is not a filter.
    #[error(
        "`{text}` is not a filter: write FIELD=VALUE or FIELD~REGEX, as in path=/api/, status=304, status=5xx, agent~bot, \
         header:referer~example, field:tenant=acme, or line~REGEX for the whole line"
    )]
    Unknown {
        /// The text.
        text: String,
    },
    /// The path does not start with a slash.
    #[error("no path starts with `{value}`: write path=/{value}, or path~{value} for a regular expression")]
    Path {
        /// The value.
        value: String,
    },
    /// The value is not a status.
    #[error("`{value}` is not a status: write three digits as in status=304, or a class as in status=5xx")]
    Status {
        /// The value.
        value: String,
    },
    /// The regular expression is invalid.
    #[error("the regular expression is invalid: {error}")]
    Regex {
        /// Cause.
        error: Box<regex::Error>,
    },
    /// There are too many filters.
    #[error("there are {count} filters: use at most {MAX_FILTERS}, or combine them in one regular expression")]
    TooMany {
        /// Number of filters.
        count: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::{Fields, Filter, Filters};

    fn parsed(texts: &[&str]) -> Vec<Filter> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }

    /// Returns whether filters keep a line with these values of their fields.
    fn keeps(only: &[&str], skip: &[&str], values: &[&str]) -> bool {
        let filters = Filters::new(parsed(only), parsed(skip)).expect("few filters");
        let mut fields = Fields::new(1 + values.len());
        for (number, value) in values.iter().enumerate() {
            fields.text(1 + number, value.as_bytes());
        }
        filters.keep(1, b"the whole line", &fields, &mut 0)
    }

    #[test]
    fn each_condition_matches_its_field() {
        for (filter, value, is_match) in [
            ("path=/api/", "/api/users", true),
            ("path=/api/", "/apis", false),
            ("path~^/(a|b)$", "/b", true),
            ("status=304", "304", true),
            ("status=304", "200", false),
            ("status=5xx", "503", true),
            ("status=5xx", "405", false),
            ("agent~bot", "Googlebot/2.1", true),
            ("agent~bot", "Bot", false),
            ("agent~(?i)bot", "Bot", true),
            ("agent=curl/8", "curl/8", true),
            ("agent=curl", "curl/8", false),
            ("field:tenant=a=b~c", "a=b~c", true),
            ("header:x-key~=", "a=b", true),
            ("agent~bot", "", false),
        ] {
            assert_eq!(keeps(&[filter], &[], &[value]), is_match, "{filter} {value}");
            assert_eq!(keeps(&[], &[filter], &[value]), !is_match, "{filter} {value}");
        }
        assert!(keeps(&["line~whole"], &[], &[]) && !keeps(&["line~half"], &[], &[]));
    }

    #[test]
    fn filters_of_one_field_are_alternatives_and_all_fields_must_match() {
        let only = ["path=/a", "status=200", "path=/b"];
        // The filters of one field are next to each other.
        assert!(keeps(&only, &[], &["/b", "/b", "200"]));
        assert!(!keeps(&only, &[], &["/b", "/b", "404"]));
        assert!(!keeps(&only, &[], &["/c", "/c", "200"]));
        assert!(!keeps(&only, &["agent~bot"], &["/b", "/b", "200", "a bot"]));
    }

    #[test]
    fn a_field_that_no_line_has_is_named() {
        let filters = Filters::new(parsed(&["line~x", "tenant=a"]), parsed(&["agent~bot"])).expect("few filters");
        let mut fields = Fields::new(2);
        fields.text(1, b"curl");
        let mut found = 0;
        assert!(!filters.keep(0, b"x", &fields, &mut found));
        assert_eq!(filters.without_field(found), ["tenant=a"]);
    }

    #[test]
    fn an_invalid_filter_is_an_error_that_says_what_would_be_right() {
        for (text, hint) in [
            ("bot", "FIELD=VALUE"),
            ("path=", "FIELD=VALUE"),
            ("=x", "FIELD=VALUE"),
            ("the path=/", "FIELD=VALUE"),
            ("line=x", "line~REGEX"),
            ("path=api", "path=/api"),
            ("status=3", "status=304"),
            ("status=abc", "status=5xx"),
            ("agent~(", "regular expression"),
            (r"agent~\w{900}{900}", "regular expression"),
        ] {
            let error = text.parse::<Filter>().expect_err(text).to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
        assert!(Filters::new(parsed(&["path=/"; 65]), Vec::new()).is_err_and(|error| error.to_string().contains("64")));
    }
}
