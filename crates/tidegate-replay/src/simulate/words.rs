//! Words and figures that the texts share.

use std::fmt::Write as _;

use super::trial::{Asked, Trialled, Tried};
use crate::figures::{count, length, share, short_count};

/// Units, in few characters if there are very many.
pub(super) fn units(n: u64) -> String {
    if n < 100_000 { count(n) } else { short(n) }
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
    let Asked { clients, requests, units, .. } = trace.asked;
    let mut told = format!("{}: {} clients, {} requests", trace.trace, count(clients), count(requests));
    if units > requests && requests > 0 {
        let _ = write!(told, " of {} units", short(units / requests));
    }
    let _ = write!(told, " in {}", length(trace.asked.length_us()));
    if let Some(log) = trace.algorithms.first() {
        let _ = write!(told, "; the log denies {}", share(log.share_denied));
    }
    wrapped(&told, "", 79)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn short(n: u64) -> String {
    short_count(n as f64)
}

/// `1.2%`, in as few characters as can be.
pub(super) fn short_share(part: f64) -> String {
    if part <= 0.0 { "0".to_owned() } else { share(part).replace(' ', "") }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes of a key")]
pub(super) fn rounded(bytes: f64) -> u64 {
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
