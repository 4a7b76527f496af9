//! Durations as people write them: `250ms`, `1m`, `1h30m`.

use std::{fmt, time::Duration};

/// Units in descending order, so that the longest one that divides prints first.
const UNITS: [(&str, u64); 6] = [
    ("w", 7 * 86_400_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
];

/// Reads a duration as limits write theirs: `250ms`, `1m`, `1h30m`, in units of `ms s m h d w`. `None` if it is none.
///
/// ```
/// assert_eq!(tidegate::parse_duration("1m30s"), Some(std::time::Duration::from_secs(90)));
/// assert_eq!(tidegate::parse_duration("90"), None);
/// ```
pub fn parse_duration(text: &str) -> Option<Duration> {
    parse_micros(text).map(Duration::from_micros)
}

/// Reads `1h30m` as microseconds; `None` if it is not a duration or does not fit.
pub(crate) fn parse_micros(text: &str) -> Option<u64> {
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
        let (_, micros) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(parse_integer(number)?.checked_mul(*micros)?)?;
        rest = tail;
    }
    Some(total)
}

/// Reads a whole number in which underscores may separate groups of digits.
pub(crate) fn parse_integer(text: &str) -> Option<u64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.ends_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '_');
    plain.then(|| text.replace('_', "").parse().ok()).flatten()
}

/// Writes microseconds as `parse_micros` reads them; `µs` for what is left below a millisecond.
pub(crate) fn write_micros(f: &mut fmt::Formatter<'_>, micros: u64) -> fmt::Result {
    let mut rest = micros;
    for (name, size) in UNITS {
        // A week is what `7d` is called only when nothing is left over: `8d` reads better than `1w1d`.
        if rest >= size && (name != "w" || rest.is_multiple_of(size)) {
            write!(f, "{}{name}", rest / size)?;
            rest %= size;
        }
    }
    if rest > 0 || micros == 0 {
        write!(f, "{rest}µs")?;
    }
    Ok(())
}
