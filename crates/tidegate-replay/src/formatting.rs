//! Formats numbers for people: `12,345`, `1.2 %`, `1h30m`, `2015-05-17 10:05:03`.

use std::time::Duration;

use jiff::Timestamp;
use tidegate::format_duration;

/// Formats a count with thousands separators: `12,345`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count in few characters, for axes: `950`, `1.2k`, `35M`.
pub fn short_count(n: f64) -> String {
    const UNITS: [(f64, &str); 6] = [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let (scale, unit) = UNITS.into_iter().find(|(scale, _)| n.abs() >= *scale).unwrap_or((1.0, ""));
    let value = n / scale;
    let text = if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// Formats a count and its noun: `1 request`, `12,345 requests`.
pub fn plural(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{} {noun}s", count(n)) }
}

/// Formats a share of 0 to 1 as a percentage with two significant digits: `12 %`, `1.2 %`, `0.0031 %`. Only 0 is `0 %`, and only
/// 1 is `100 %`.
pub fn share(part: f64) -> String {
    let percent = part * 100.0;
    if percent <= 0.0 {
        "0 %".to_owned()
    } else if percent >= 100.0 {
        "100 %".to_owned()
    } else if percent < 1e-7 {
        "under 0.0000001 %".to_owned()
    } else if percent > 100.0 - 1e-7 {
        "over 99.9999999 %".to_owned()
    } else {
        // Close to 100 %, the digits of the difference matter.
        let places = decimal_places(if percent > 99.0 { 100.0 - percent } else { percent });
        format!("{percent:.places$} %")
    }
}

/// Formats a share of 0 to 1 in few characters, for axes: `5 %`, `0.1 %`, `2.5 %`, `1e-5 %`.
pub fn short_share(part: f64) -> String {
    let percent = part * 100.0;
    if percent.abs() < 1e-12 {
        return "0 %".to_owned();
    }
    if percent.abs() < 0.000_999 {
        return format!("{percent:.0e} %");
    }
    let places = decimal_places(percent.abs());
    let text = format!("{percent:.places$}");
    let text = if places > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

/// Returns `part` as a share of `whole`, and 0 if `whole` is 0.
#[expect(clippy::cast_precision_loss, reason = "a number for people")]
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns the number of decimal places that show two significant digits of a positive number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 12")]
fn decimal_places(n: f64) -> usize {
    (1.0 - n.log10().floor()).clamp(0.0, 12.0) as usize
}

/// Formats a duration in its two largest units, such as `3d11h`, `12s` and `1ms500µs`.
pub fn duration(micros: u64) -> String {
    format_duration(Duration::from_micros(micros)).max_units(2).to_string()
}

/// Formats a signed number of microseconds: `+15s`, `−1m30s`, `0`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and not negative")]
pub fn offset(micros: f64) -> String {
    let distance = micros.abs().round() as u64;
    match micros {
        _ if distance == 0 => "0".to_owned(),
        micros if micros < 0.0 => format!("−{}", duration(distance)),
        _ => format!("+{}", duration(distance)),
    }
}

/// Formats a time in UTC: `2015-05-17 10:05:03`.
pub fn timestamp(micros: u64) -> String {
    strftime(micros, "%Y-%m-%d %H:%M:%S")
}

/// Formats a time in UTC with a `strftime` format.
pub fn strftime(micros: u64, format: &str) -> String {
    let time = i64::try_from(micros).ok().and_then(|micros| Timestamp::from_microsecond(micros).ok());
    time.map_or_else(|| "?".to_owned(), |time| time.strftime(format).to_string())
}

/// Formats a number of seconds.
pub(crate) fn seconds(seconds: u64) -> String {
    duration(seconds.saturating_mul(1_000_000))
}

/// Returns the beginning of a text, with `…` in place of the rest.
pub(crate) fn clip(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => {
            let kept = text.char_indices().nth(max.saturating_sub(1)).map_or(0, |(end, _)| end);
            format!("{}…", text[..kept].trim_end())
        }
    }
}

/// Formats a number of units. A large number has four digits, rounded down, so that only a number that reaches a bound shows it.
pub(crate) fn units(n: u64) -> String {
    if n < 100_000 {
        return count(n);
    }
    let (size, unit) = [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M")]
        .into_iter()
        .find(|(size, _)| n >= *size)
        .unwrap_or((1_000, "k"));
    let (whole, rest) = (n / size, n % size);
    let places = 4_usize.saturating_sub(whole.to_string().len()).min(3);
    let rest = format!("{:03}", rest / (size / 1_000));
    format!("{}{unit}", format!("{whole}.{}", &rest[..places]).trim_end_matches('0').trim_end_matches('.'))
}

/// Formats a multiple of a limit, rounded down, so that only a number that reaches a bound shows it.
pub(crate) fn times(times: f64) -> String {
    // The small number compensates for the rounding of the division.
    format!("{:.2}", (times * 100.0 + 1e-11).floor() / 100.0)
}

/// Formats a number of bytes, rounded to a whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the size of a key")]
pub(crate) fn bytes(bytes: f64) -> String {
    count(bytes.round() as u64)
}

/// Returns a clause as a sentence.
pub(crate) fn sentence(clause: &str) -> String {
    let mut rest = clause.chars();
    let first: String = rest.next().map_or_else(String::new, |first| first.to_uppercase().collect());
    let end = if clause.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", rest.as_str())
}

/// Joins names as in a sentence: `a, b and c`.
pub(crate) fn list<S: AsRef<str>>(names: &[S]) -> String {
    match names {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            format!("{} and {}", first.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        clip, count, duration, list, offset, plural, share, short_count, short_share, times, timestamp, units,
    };

    #[test]
    fn numbers_are_formatted_for_people() {
        let counts = [0, 999, 1_000, 12_345, 1_234_567].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "12,345", "1,234,567"]);
        let short = [0.0, 950.0, 1_200.0, 35e6, 0.5, 1.8e19].map(short_count);
        assert_eq!(short, ["0", "950", "1.2k", "35M", "0.5", "18E"]);
        assert_eq!([0, 1, 1_200].map(|n| plural(n, "request")), ["0 requests", "1 request", "1,200 requests"]);
        let short = [0.0, 0.05, 0.001, 0.025, 1.0, 0.2, 1e-5, 1e-7].map(short_share);
        assert_eq!(short, ["0 %", "5 %", "0.1 %", "2.5 %", "100 %", "20 %", "0.001 %", "1e-5 %"]);
        let shares = [0.0, 0.000_031, 0.012, 0.5, 0.999_9, 1.0].map(share);
        assert_eq!(shares, ["0 %", "0.0031 %", "1.2 %", "50 %", "99.990 %", "100 %"]);
        let durations = [5, 1_500, 12_000_000, 90_000_000, 299_100_000_000, 700_000_000_000].map(duration);
        assert_eq!(durations, ["5µs", "1ms500µs", "12s", "1m30s", "3d11h", "8d2h"]);
        assert_eq!([-90e6, -0.0, 15e6, 0.2].map(offset), ["−1m30s", "0", "+15s", "0"]);
        assert_eq!(timestamp(1_431_857_103_000_000), "2015-05-17 10:05:03");
    }

    #[test]
    fn a_tiny_share_is_not_zero_and_a_large_share_is_not_all() {
        let small = [1e-8, 1.2e-9, 9e-10, 1e-15, f64::MIN_POSITIVE].map(share);
        let under = "under 0.0000001 %";
        assert_eq!(small, ["0.0000010 %", "0.00000012 %", under, under, under]);
        let large = [1.0 - 1e-8, 1.0 - 1e-12, 1.0 - f64::EPSILON].map(share);
        assert_eq!(large, ["99.9999990 %", "over 99.9999999 %", "over 99.9999999 %"]);
    }

    #[test]
    fn large_numbers_of_units_are_rounded_down() {
        let shown = [99_999, 100_000, 999_999, 1_000_000, 12_345_678, 1_998_000_000_000, 1_000_999_999_999].map(units);
        assert_eq!(shown, ["99,999", "100k", "999.9k", "1M", "12.34M", "1.998T", "1T"]);
        assert_eq!(units(u64::MAX), "18446744T");
        assert_eq!([1.3, 1.999_999_999_999, 2.0, 0.0].map(times), ["1.30", "1.99", "2.00", "0.00"]);
    }

    #[test]
    fn names_are_joined_as_in_a_sentence() {
        assert_eq!(list::<&str>(&[]), "");
        assert_eq!([&["a"][..], &["a", "b"], &["a", "b", "c"]].map(list), ["a", "a and b", "a, b and c"]);
    }

    #[test]
    fn long_texts_are_clipped() {
        assert_eq!(["abcdef", "abcdefg"].map(|text| clip(text, 6)), ["abcdef", "abcde…"]);
        assert_eq!(clip("äöüß€", 3), "äö…");
    }
}
