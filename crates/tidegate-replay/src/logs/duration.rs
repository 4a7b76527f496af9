//! [`DurationSource`]: where the duration of a request comes from, and whether the time of its line is its start or its end.
//!
//! | log | duration | time of the line |
//! | --- | --- | --- |
//! | combined of nginx, with `$request_time` at the end | seconds, with a decimal point | the end |
//! | combined of Apache, with `%D` at the end | microseconds, a whole number | the start |
//! | an nginx `log_format` | `$request_time`, seconds | the end |
//! | JSON lines | see [`NAMES`] | the end; the start if the time is `start_time` or `StartUTC` |
//! | a trace | see [`NAMES`] | the start |

use std::{str::FromStr, time::Duration};

use super::{
    fields::{Field, is_name},
    format::Format,
};
use crate::micros;

/// Common names of the duration, the most likely first, and its unit in nanoseconds.
pub(super) const NAMES: [(&str, u64); 12] = [
    ("request_time", SECOND),
    ("duration_us", MICROSECOND),
    ("duration_ms", MILLISECOND),
    ("duration_s", SECOND),
    ("duration", SECOND),
    ("Duration", 1),
    ("latency_ms", MILLISECOND),
    ("response_time_ms", MILLISECOND),
    ("elapsed_ms", MILLISECOND),
    ("request_time_ms", MILLISECOND),
    ("latency_s", SECOND),
    ("elapsed_s", SECOND),
];

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The longest duration that counts.
pub(crate) const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);

/// Where the durations of requests come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DurationSource {
    /// The field of the duration. By default its common names or, in an access log, the last word of a line.
    name: Option<String>,
    /// The unit of a number in nanoseconds. By default that of the name.
    unit: Option<u64>,
    /// Whether the time of a line is the start of its request.
    is_start: Option<bool>,
}

impl DurationSource {
    /// Returns the same source for lines whose time is the start of the request, or its end.
    #[must_use]
    pub fn with_time_of_start(self, is_start: bool) -> Self {
        Self { is_start: Some(is_start), ..self }
    }

    /// Returns the field that holds the duration.
    pub(super) fn field(&self) -> Field {
        Field::Duration(self.name.clone())
    }

    /// Returns the start and the duration of a request in microseconds, by the time of its line.
    pub(super) fn start(
        &self,
        line_us: u64,
        text: Option<(&[u8], Option<u64>)>,
        format: &Format,
    ) -> Result<(u64, u64), &'static str> {
        let (text, unit_of_name) = text.ok_or(NO_DURATION)?;
        let text = std::str::from_utf8(text).map_err(|_| NOT_A_DURATION)?.trim();
        let is_access_log = matches!(format, Format::AccessLog(_));
        // nginx writes seconds with three decimals, and Apache's `%D` whole microseconds.
        let is_apache = is_access_log && !text.contains('.') && self.unit.is_none_or(|unit| unit == MICROSECOND);
        let default = if is_apache { MICROSECOND } else { SECOND };
        let unit = self.unit.or(unit_of_name).unwrap_or(default);
        let duration_us = parsed(text, unit).ok_or(NOT_A_DURATION)?.min(micros(MAX_DURATION));
        let is_start = self.is_start.unwrap_or(is_apache || format.has_time_of_start());
        let start_us = if is_start { line_us } else { line_us.saturating_sub(duration_us) };
        Ok((start_us, duration_us))
    }
}

pub(super) const NO_DURATION: &str = "it has no duration";
const NOT_A_DURATION: &str = "its duration is not a number";

/// Parses a number with an optional unit, such as `0.123` or `123ms`. Returns microseconds, rounded up.
fn parsed(text: &str, unit: u64) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let unit = match suffix {
        "" => unit,
        suffix => unit_named(suffix)?,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: u128 = whole.parse().ok()?;
    let fraction = &fraction[..fraction.len().min(12)];
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let nanos = whole.checked_mul(u128::from(unit))?.checked_add(fraction * u128::from(unit) / scale)?;
    u64::try_from(nanos.div_ceil(u128::from(MICROSECOND))).ok()
}

fn unit_named(name: &str) -> Option<u64> {
    match name {
        "s" => Some(SECOND),
        "ms" => Some(MILLISECOND),
        "us" | "µs" => Some(MICROSECOND),
        "ns" => Some(1),
        _ => None,
    }
}

/// Returns the unit of the duration among columns with these names, if it is wanted.
pub(super) fn unit_of_column<S: AsRef<str>>(wanted: &[Field], columns: &[S]) -> Option<u64> {
    let column = wanted.iter().find(|field| matches!(field, Field::Duration(_)))?.column(columns)?;
    unit_of(columns[column.index].as_ref())
}

/// Returns the unit of a common name.
pub(super) fn unit_of(name: &str) -> Option<u64> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit)
}

impl FromStr for DurationSource {
    type Err = DurationSourceError;

    /// Parses a field and its unit: `request_time`, `latency:ms`, or only the unit `:s`.
    fn from_str(text: &str) -> Result<Self, DurationSourceError> {
        let wrong = || DurationSourceError { text: text.chars().take(60).collect() };
        let field = text.strip_prefix("field:").unwrap_or(text);
        let (name, unit) = match field.rsplit_once(':') {
            Some((name, unit)) => (name, Some(unit_named(unit).ok_or_else(wrong)?)),
            None => (field, None),
        };
        let name = match name {
            "" | "last" if unit.is_some() || name == "last" => None,
            name if is_name(name) => Some(name.to_owned()),
            _ => return Err(wrong()),
        };
        Ok(Self { name, unit, is_start: None })
    }
}

/// Error of parsing a [`DurationSource`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a duration of requests: use request_time, latency:ms or last:s, with s, ms, us or ns")]
#[non_exhaustive]
pub struct DurationSourceError {
    /// The text.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::{DurationSource, MICROSECOND, MILLISECOND, SECOND, parsed};

    #[test]
    fn durations_are_rounded_up_to_a_microsecond() {
        for (text, unit, micros) in [
            ("0.123", SECOND, Some(123_000)),
            ("0", SECOND, Some(0)),
            ("2", SECOND, Some(2_000_000)),
            ("153423", MICROSECOND, Some(153_423)),
            ("1.5", MILLISECOND, Some(1_500)),
            ("1001", 1, Some(2)),
            ("12ms", SECOND, Some(12_000)),
            ("1.25s", 1, Some(1_250_000)),
            ("7µs", 1, Some(7)),
            ("", SECOND, None),
            ("-", SECOND, None),
            ("-1", SECOND, None),
            (".5", SECOND, None),
            ("1.2.3", SECOND, None),
            ("5 minutes", SECOND, None),
            ("99999999999999999999999999999999999999999", SECOND, None),
        ] {
            assert_eq!(parsed(text, unit), micros, "{text}");
        }
    }

    #[test]
    fn a_source_is_a_field_and_a_unit() {
        let source = |name: Option<&str>, unit| DurationSource { name: name.map(str::to_owned), unit, is_start: None };
        assert_eq!("request_time".parse(), Ok(source(Some("request_time"), None)));
        assert_eq!("field:latency:ms".parse(), Ok(source(Some("latency"), Some(MILLISECOND))));
        assert_eq!("last:s".parse(), Ok(source(None, Some(SECOND))));
        assert_eq!(":us".parse(), Ok(source(None, Some(MICROSECOND))));
        for wrong in ["", ":", "latency:minutes", "a b", "a:b:c"] {
            assert!(wrong.parse::<DurationSource>().is_err(), "{wrong}");
        }
    }
}
