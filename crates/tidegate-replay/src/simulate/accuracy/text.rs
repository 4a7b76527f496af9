//! How far from exact, in the terminal.

use std::fmt::Write as _;

use super::Accuracy;
use crate::{
    figures::{count, share},
    simulate::{
        trial::{Trialled, Tried},
        words::{WINDOW_AND_BYTES, full_keys, rounded, times, told_of, wrapped},
    },
    text::table::Table,
};

/// What Cloudflare reports of its own traffic.
const CLOUDFLARE: &str = "0.003 %";

/// A table for each trace, and what its columns mean.
pub fn text(accuracy: &Accuracy) -> String {
    let mut out = format!("{}: how far from the exact log\n", accuracy.limit);
    if let (Some(load), Some(seed)) = (accuracy.load, accuracy.seed) {
        let _ = writeln!(out, "(made-up clients ask for {load} times the limit on average; seed {seed})");
    }
    for trace in &accuracy.traces {
        let _ = write!(out, "\n{}{}", told_of(trace), table(trace));
    }
    out.push('\n');
    for paragraph in MEANINGS {
        out.push_str(&wrapped(paragraph, "", 79));
    }
    if let Some(trace) = accuracy.traces.first() {
        out.push_str(&wrapped(&full_keys(trace), "", 79));
    }
    let figures: Vec<String> = accuracy.traces.iter().filter_map(of_the_counter).collect();
    if !figures.is_empty() {
        let told = format!(
            "sliding_counter decides otherwise than the log on {}. Cloudflare reports about {} of wrong decisions on its own \
             traffic. How many there are depends on how much of the traffic comes from clients that are near their limit or above it.",
            figures.join(", "),
            CLOUDFLARE,
        );
        out.push('\n');
        out.push_str(&wrapped(&told, "", 79));
    }
    out
}

const MEANINGS: [&str; 3] = [
    "beside the log: requests let through where the exact log, which saw the same requests, denies, and the other way round; in \
     shares of all requests. One difference makes others follow: what one let through, the other may let through later.",
    "by its own past: requests let through though the window was full, or denied though there was room, given what the algorithm \
     itself had let through before.",
    WINDOW_AND_BYTES,
];

fn table(trace: &Trialled) -> Table {
    let mut table = Table::new(&["", ">beside", ">the log", ">by its", ">own past", ">worst", ">its", ">bytes"]);
    let second = ["algorithm", "let in", "denied", "let in", "denied", "window", "bound", "a key"];
    table.row(second.map(str::to_owned));
    for tried in &trace.algorithms {
        let Tried { beside_log, by_own_history, .. } = tried;
        table.row([
            tried.algorithm.clone(),
            share(beside_log.share_admitted),
            share(beside_log.share_denied),
            share(by_own_history.share_admitted),
            share(by_own_history.share_denied),
            times(tried.worst_window_units, trace.max),
            times(tried.promised_window_units, trace.max).replace(".00", ""),
            count(rounded(tried.bytes_per_key)),
        ]);
    }
    table
}

/// What the counter does on a trace, in a few words.
fn of_the_counter(trace: &Trialled) -> Option<String> {
    let counter = trace.algorithms.iter().find(|tried| tried.algorithm == "sliding_counter")?;
    Some(format!("{} of the {} trace", share(counter.beside_log.share()), trace.trace))
}
