//! Words and figures that the texts share.

use std::fmt::Write as _;

use super::trial::{Asked, Trialled, Tried};
use crate::figures::{count, counted, length, share};

/// Units; if there are very many, their first four figures, rounded down, so that only what reaches a bound is said to.
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

/// How many times the limit, rounded down, so that only what reaches a bound is said to.
pub(super) fn times(units: u64, max: u64) -> String {
    let hundredths = u128::from(units) * 100 / u128::from(max.max(1));
    format!("{}.{:02}x", hundredths / 100, hundredths % 100)
}

/// A paragraph of lines no longer than `width`, each after `indent`.
pub(super) fn wrapped(text: &str, indent: &str, width: usize) -> String {
    let mut out = String::new();
    let mut line = String::from(indent);
    for word in text.split_whitespace() {
        let empty = line.len() == indent.len();
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            out.push_str(&line);
            out.push('\n');
            line.truncate(indent.len());
        } else if !empty {
            line.push(' ');
        }
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
    out
}

/// A trace in a sentence: its name, how many clients and requests it has, how long it is, what the log denies.
pub(super) fn told_of(trace: &Trialled) -> String {
    let mut told = format!("{}: {}", trace.trace, asked(&trace.asked));
    if let Some(log) = trace.algorithms.first() {
        let _ = write!(told, "; the log denies {}", share(log.share_denied));
    }
    wrapped(&told, "", 79)
}

/// What was asked for, in a few words: how many clients and requests, and how long it took.
pub(crate) fn asked(asked: &Asked) -> String {
    let mut told = format!("{}, {}", counted(asked.clients, "client"), counted(asked.requests, "request"));
    if asked.units > asked.requests && asked.requests > 0 {
        let _ = write!(told, " of {} units", units(asked.units / asked.requests));
    }
    if asked.length_us() > 0 {
        let _ = write!(told, " in {}", length(asked.length_us()));
    }
    told
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes of a key")]
pub(crate) fn rounded(bytes: f64) -> u64 {
    bytes.round() as u64
}

/// What the columns mean that tell of the worst window and of memory.
pub(super) const WINDOW_AND_BYTES: &str = "worst window: the most that a client got in any window, wherever it lies, as a \
     multiple of the limit; its bound: what the algorithm promises not to exceed there. bytes a key: the most that a client's \
     state took, on average.";

/// What a client's state takes that spends the whole limit.
pub(super) fn full_keys(trace: &Trialled) -> String {
    let of = |tried: &Tried| format!("{} in {}", units(tried.bytes_per_full_key), tried.algorithm);
    let each: Vec<String> = trace.algorithms.iter().map(of).collect();
    format!("A client that spends the whole limit evenly takes this many bytes: {}.", each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::units;

    #[test]
    fn very_many_units_are_rounded_down() {
        let shown = [99_999, 100_000, 999_999, 1_000_000, 12_345_678, 1_998_000_000_000, 1_000_999_999_999].map(units);
        assert_eq!(shown, ["99,999", "100k", "999.9k", "1M", "12.34M", "1.998T", "1T"]);
        assert_eq!(units(u64::MAX), "18446744T");
    }
}
