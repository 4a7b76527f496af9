//! Durations as text: `250ms`, `1m`, `1h30m`.

use std::{fmt, time::Duration};

/// The units, largest first.
const UNITS: [(&str, u64); 7] = [
    ("w", 7 * 86_400_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("µs", 1),
];

/// Parses a duration such as `250ms`, `1m` or `1h30m`, in the units `ms s m h d w`. `None` if it is not a duration.
///
/// ```
/// assert_eq!(tidegate::parse_duration("1m30s"), Some(std::time::Duration::from_secs(90)));
/// assert_eq!(tidegate::parse_duration("90"), None);
/// ```
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0_u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '_')?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let (_, micros) = UNITS.iter().find(|(name, micros)| *name == unit && *micros > 1)?;
        total = total.checked_add(parse_integer(number)?.checked_mul(*micros)?)?;
        rest = tail;
    }
    Some(Duration::from_micros(total))
}

/// Parses a whole number in which underscores may separate groups of digits.
pub(crate) fn parse_integer(text: &str) -> Option<u64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.ends_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '_');
    plain.then(|| text.replace('_', "").parse().ok()).flatten()
}

/// Formats a duration as [`parse_duration`] reads it, largest unit first.
///
/// It is exact down to microseconds, with `µs` for the part below a millisecond. [`DurationText::max_units`] shortens it.
///
/// ```
/// use std::time::Duration;
/// use tidegate::format_duration;
///
/// assert_eq!(format_duration(Duration::from_secs(90)).to_string(), "1m30s");
/// assert_eq!(format_duration(Duration::from_secs(93_784)).to_string(), "1d2h3m4s");
/// assert_eq!(format_duration(Duration::from_secs(93_784)).max_units(2).to_string(), "1d2h");
/// ```
pub fn format_duration(duration: Duration) -> DurationText {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    DurationText { micros, max_units: UNITS.len() }
}

/// A duration to display: see [`format_duration`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationText {
    micros: u64,
    max_units: usize,
}

impl DurationText {
    /// Writes at most `units` units, the largest one and those that follow it. Smaller units are dropped.
    #[must_use]
    pub fn max_units(mut self, units: usize) -> Self {
        self.max_units = units;
        self
    }
}

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Weeks are written only if nothing is left over: `8d` reads better than `1w1d`.
        let is_used =
            |(name, size): &&(&str, u64)| self.micros >= *size && (*name != "w" || self.micros.is_multiple_of(*size));
        let first = UNITS.iter().position(|unit| is_used(&unit));
        let mut rest = self.micros;
        for (name, size) in UNITS.iter().skip(first.unwrap_or(UNITS.len())).take(self.max_units) {
            if rest >= *size {
                write!(f, "{}{name}", rest / size)?;
                rest %= size;
            }
        }
        if first.is_none() { f.write_str("0s") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{format_duration, parse_duration};

    #[test]
    fn durations_are_written_exactly_with_the_largest_units_first() {
        let texts = [
            (0, "0s"),
            (1, "1µs"),
            (1_001_000, "1s1ms"),
            (90_000_000, "1m30s"),
            (604_800_000_000, "1w"),
            (691_200_000_000, "8d"),
            (93_784_000_001, "1d2h3m4s1µs"),
        ];
        for (micros, text) in texts {
            let duration = Duration::from_micros(micros);
            assert_eq!(format_duration(duration).to_string(), text);
            let is_parsed = micros == 0 || text.ends_with("µs") || parse_duration(text) == Some(duration);
            assert!(is_parsed, "{text}");
        }
    }

    #[test]
    fn at_most_the_given_number_of_units_is_written() {
        let two = |seconds| format_duration(Duration::from_secs(seconds)).max_units(2).to_string();
        assert_eq!([93_784, 86_404, 3_599, 60, 0].map(two), ["1d2h", "1d", "59m59s", "1m", "0s"]);
    }
}
