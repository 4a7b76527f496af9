//! Numbers as people read them: `12,345`, `1.2 %`, `1h 30m`, `17 May 2015 10:05`.

use jiff::Timestamp;

/// A count with its thousands apart: `12,345`.
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

/// A count in few characters, for axes: `950`, `1.2k`, `35M`.
pub fn short_count(n: f64) -> String {
    let (scaled, unit) = match n.abs() {
        n if n >= 1e18 => (1e18, "E"),
        n if n >= 1e15 => (1e15, "P"),
        n if n >= 1e12 => (1e12, "T"),
        n if n >= 1e9 => (1e9, "G"),
        n if n >= 1e6 => (1e6, "M"),
        n if n >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let value = n / scaled;
    let text = if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// So many of something: `1 request`, `12,345 requests`.
pub fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{} {what}s", count(n)) }
}

/// A share of 0 to 1 as a percentage with two figures that mean something: `12 %`, `1.2 %`, `0.0031 %`. Only 0 is `0 %`, and
/// only 1 is `100 %`.
pub fn share(part: f64) -> String {
    let percent = part * 100.0;
    if percent <= 0.0 {
        "0 %".to_owned()
    } else if percent >= 100.0 {
        "100 %".to_owned()
    } else if percent < 1e-7 {
        // More places than anybody counts.
        "under 0.0000001 %".to_owned()
    } else if percent > 100.0 - 1e-7 {
        "over 99.9999999 %".to_owned()
    } else if percent > 99.0 {
        // What is missing is what matters here.
        let missing = 100.0 - percent;
        let places = places_for_two_figures(missing);
        format!("{percent:.places$} %")
    } else {
        let places = places_for_two_figures(percent);
        format!("{percent:.places$} %")
    }
}

/// A share of 0 to 1 in few characters, for axes: `5 %`, `0.1 %`, `2.5 %`, `1e-5 %`.
pub fn short_share(part: f64) -> String {
    let percent = part * 100.0;
    if percent.abs() < 1e-12 {
        return "0 %".to_owned();
    }
    if percent.abs() < 0.000_999 {
        return format!("{percent:.0e} %");
    }
    let places = places_for_two_figures(percent.abs());
    let text = format!("{percent:.places$}");
    let text = if places > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

/// `part` of `whole`, as a share; 0 of nothing is 0.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// How many places after the point show two figures of a number above 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 12")]
fn places_for_two_figures(n: f64) -> usize {
    (1.0 - n.log10().floor()).clamp(0.0, 12.0) as usize
}

/// A length of time in its two largest units: `83h 5m`, `12s`, `1.5ms`.
pub fn length(micros: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000)];
    if micros < 1_000 {
        return format!("{micros}µs");
    }
    if micros < 1_000_000 {
        let text = format!("{}.{}", micros / 1_000, micros % 1_000 / 100);
        return format!("{}ms", text.strip_suffix(".0").unwrap_or(&text));
    }
    // Days come late: "83h" says more about a log than "3d 11h" does.
    let from = usize::from(micros < 7 * UNITS[0].1);
    for (i, (name, size)) in UNITS.iter().enumerate().skip(from) {
        if micros >= *size {
            let (whole, rest) = (micros / size, micros % size);
            return match UNITS.get(i + 1) {
                Some((smaller, size)) if rest >= *size => format!("{whole}{name} {}{smaller}", rest / size),
                None if rest >= 100_000 && whole < 10 => format!("{whole}.{}s", rest / 100_000),
                _ => format!("{whole}{name}"),
            };
        }
    }
    unreachable!("a second or more")
}

/// Microseconds after a moment, or before it: `+15s`, `−1m 30s`, `0`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and not negative")]
pub fn since(micros: f64) -> String {
    let far = micros.abs().round() as u64;
    match micros {
        _ if far == 0 => "0".to_owned(),
        micros if micros < 0.0 => format!("−{}", length(far)),
        _ => format!("+{}", length(far)),
    }
}

/// A moment, to the second, in UTC: `2015-05-17 10:05:03`.
pub fn moment(micros: u64) -> String {
    strftime(micros, "%Y-%m-%d %H:%M:%S")
}

/// A moment in UTC as `strftime` writes it.
pub fn strftime(micros: u64, format: &str) -> String {
    let moment = i64::try_from(micros).ok().and_then(|micros| Timestamp::from_microsecond(micros).ok());
    moment.map_or_else(|| "?".to_owned(), |moment| moment.strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::{count, counted, length, moment, share, short_count, short_share, since};

    #[test]
    fn reads_as_a_person_writes() {
        let counts = [0, 999, 1_000, 12_345, 1_234_567].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "12,345", "1,234,567"]);
        let short = [0.0, 950.0, 1_200.0, 35e6, 0.5, 1.8e19].map(short_count);
        assert_eq!(short, ["0", "950", "1.2k", "35M", "0.5", "18E"]);
        assert_eq!([0, 1, 1_200].map(|n| counted(n, "request")), ["0 requests", "1 request", "1,200 requests"]);
        let short = [0.0, 0.05, 0.001, 0.025, 1.0, 0.2, 1e-5, 1e-7].map(short_share);
        assert_eq!(short, ["0 %", "5 %", "0.1 %", "2.5 %", "100 %", "20 %", "0.001 %", "1e-5 %"]);
        let shares = [0.0, 0.000_031, 0.012, 0.5, 0.999_9, 1.0].map(share);
        assert_eq!(shares, ["0 %", "0.0031 %", "1.2 %", "50 %", "99.990 %", "100 %"]);
        let lengths = [5, 1_500, 12_000_000, 90_000_000, 299_100_000_000, 700_000_000_000].map(length);
        assert_eq!(lengths, ["5µs", "1.5ms", "12s", "1m 30s", "83h 5m", "8d 2h"]);
        assert_eq!([-90e6, -0.0, 15e6, 0.2].map(since), ["−1m 30s", "0", "+15s", "0"]);
        assert_eq!(moment(1_431_857_103_000_000), "2015-05-17 10:05:03");
    }

    #[test]
    fn a_share_too_small_to_write_is_not_nothing_and_one_too_large_not_all() {
        let small = [1e-8, 1.2e-9, 9e-10, 1e-15, f64::MIN_POSITIVE].map(share);
        let under = "under 0.0000001 %";
        assert_eq!(small, ["0.0000010 %", "0.00000012 %", under, under, under]);
        let large = [1.0 - 1e-8, 1.0 - 1e-12, 1.0 - f64::EPSILON].map(share);
        assert_eq!(large, ["99.9999990 %", "over 99.9999999 %", "over 99.9999999 %"]);
    }
}
