//! Reports for the terminal: tables and small charts within 80 columns.

mod accuracy;
mod at_once;
mod boundary;
mod chart;
mod comparison;
mod groups;
mod obedience;
mod replay;

pub use accuracy::accuracy;
pub use boundary::boundary;
pub use comparison::comparison;
pub use replay::replay;

use crate::{
    formatting::{self, ratio, share, units},
    simulate::evaluation::{AlgorithmResult, TraceResult},
    wording::{self, Glossary},
};

/// Width of a paragraph.
const WIDTH: usize = 79;

/// Wraps a paragraph at `width`. `indent` starts the first line, and `next_indent` the other lines.
fn wrap(text: &str, indent: &str, next_indent: &str, width: usize) -> String {
    let (mut out, mut line, mut is_first) = (String::new(), indent.to_owned(), true);
    for word in text.split_whitespace() {
        if !is_first && line.chars().count() + 1 + word.chars().count() > width {
            out = out + &line + "\n";
            next_indent.clone_into(&mut line);
        } else if !is_first {
            line.push(' ');
        }
        line.push_str(word);
        is_first = false;
    }
    out + &line + "\n"
}

fn paragraph(text: &str) -> String {
    wrap(text, "", "", WIDTH)
}

fn glossary(terms: Glossary) -> String {
    terms.iter().map(|(term, meaning)| wrap(&format!("{term}: {meaning}."), "", "  ", WIDTH)).collect()
}

/// Formats a multiple of the limit.
fn times(units: u64, max: u64) -> String {
    formatting::times(ratio(units, max)) + "x"
}

/// Returns the last cells of a result: the worst window, the promised maximum and the bytes.
fn window_and_bytes(result: &AlgorithmResult, max: u64) -> [String; 3] {
    [
        times(result.worst_window_units, max),
        times(result.promised_window_units, max).replace(".00", ""),
        formatting::bytes(result.bytes_per_key),
    ]
}

/// Describes a trace: its name, its size, and the share that `sliding_log` denies.
fn trace_heading(trace: &TraceResult) -> String {
    let denied = trace.algorithms.first().map(|log| format!("; sliding_log denies {}", share(log.share_denied)));
    paragraph(&format!("{}: {}{}", trace.trace, wording::trace(trace), denied.unwrap_or_default()))
}

/// Describes the size of the state of a client that spends the whole limit.
fn full_keys(trace: &TraceResult) -> String {
    let size = |result: &AlgorithmResult| format!("{} for {}", units(result.bytes_per_full_key), result.algorithm);
    let sizes: Vec<String> = trace.algorithms.iter().map(size).collect();
    paragraph(&format!("Bytes of a client that spends the whole limit evenly: {}.", sizes.join(", ")))
}
