//! What the pages of simulations share: the worst window beside its bound, what a key takes, and words.

use super::escape;
use super::plot::{Look, Rows, as_f64};
use crate::{
    figures::{count, ratio, short_count},
    simulate::{
        trial::{Trialled, Tried},
        words::{self, rounded},
    },
};

/// Names as they stand in a sentence: `a, b and c`.
pub(super) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    match names {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            format!("{} and {}", first.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", "), last.as_ref())
        }
    }
}

/// How many times the limit, rounded down, so that only what reaches a bound is said to.
pub(super) fn times(times: f64) -> String {
    // A hair for what division takes away.
    format!("{:.2}×", (times * 100.0 + 1e-6).floor() / 100.0)
}

/// Words and what they mean, as a section.
pub(super) fn meanings(heading: &str, words: &[(&str, &str)]) -> String {
    let fact = |(word, meaning): &(&str, &str)| format!("<dt>{word}</dt><dd>{meaning}</dd>");
    let facts: String = words.iter().map(fact).collect();
    format!("<section>\n<h2>{heading}</h2>\n<dl class=\"facts\">{facts}</dl>\n</section>\n")
}

/// What was asked for, in a sentence; it is foreign only where the trace is.
pub(super) fn asked(trace: &Trialled) -> String {
    let moved = match trace.asked.moved {
        0 => String::new(),
        n => format!(" {} came more than a window late, and are decided as if they had come later.", count(n)),
    };
    format!("{}.{moved}", words::asked(&trace.asked))
}

/// The worst window of each algorithm beside what it promises.
pub(super) fn windows(trace: &Trialled) -> Rows {
    let axis = |times: f64| format!("{}×", short_count(times));
    let rows = Rows::new("Worst window and its bound", "units in a window, as a multiple of the limit", times, axis)
        .about("for each algorithm, the most that a client got in any window, and what is promised")
        .series("the most that a client got in any window", Look::Series(0))
        .series("promised at most", Look::Series(1));
    let row = |rows: Rows, tried: &Tried| {
        let promised = ratio(tried.promised_window_units, trace.max);
        rows.row(&tried.algorithm, &[tried.worst_window_times, promised])
    };
    trace.algorithms.iter().fold(rows, row)
}

/// What a client's state takes, on average.
pub(super) fn memory(trace: &Trialled) -> Rows {
    let rows = Rows::new("Memory for each client", "bytes", bytes, short_count)
        .about("for each algorithm, the most bytes that a client's state took, on average")
        .series("the most that its state took, on average", Look::Series(0));
    trace.algorithms.iter().fold(rows, |rows, tried| rows.row(&tried.algorithm, &[tried.bytes_per_key]))
}

/// What the state of a client takes that spends the whole limit, as a section.
pub(super) fn full_keys(trace: &Trialled) -> String {
    let rows = Rows::new("Memory for a client that spends the whole limit", "bytes", bytes, short_count)
        .about("for each algorithm, the bytes that such a client's state takes at most")
        .series("the most that its state takes", Look::Series(0));
    let full = |rows: Rows, tried: &Tried| rows.row(&tried.algorithm, &[as_f64(tried.bytes_per_full_key)]);
    format!(
        "<section>\n<h2>Memory at the limit</h2>\n<p>A client that spends {} evenly, in at most 10,000 requests a window: what a log \
         takes grows with the requests that it holds, counters stay as they are.</p>\n{}</section>\n",
        escape::text(&trace.limit),
        trace.algorithms.iter().fold(rows, full),
    )
}

fn bytes(bytes: f64) -> String {
    count(rounded(bytes))
}

#[cfg(test)]
mod tests {
    use super::{listed, times};

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!(listed::<&str>(&[]), "");
        assert_eq!([&["a"][..], &["a", "b"], &["a", "b", "c"]].map(listed), ["a", "a and b", "a, b and c"]);
    }

    #[test]
    fn only_what_reaches_a_bound_is_said_to() {
        assert_eq!([1.3, 1.999_999, 2.0, 0.0].map(times), ["1.30×", "1.99×", "2.00×", "0.00×"]);
    }
}
