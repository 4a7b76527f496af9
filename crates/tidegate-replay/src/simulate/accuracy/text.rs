//! How far from exact, in the terminal.

use std::fmt::Write as _;

use super::Accuracy;
use crate::{
    figures::{count, share},
    simulate::{
        trial::{Trialled, Tried},
        words::{rounded, short_share, times, told_of, units, wrapped},
    },
    text::table::Table,
};

/// What Cloudflare reports of its own traffic, as a share of requests.
const CLOUDFLARE: f64 = 0.000_03;

/// A table for each trace, and what its columns mean.
pub fn text(accuracy: &Accuracy) -> String {
    let mut out = format!("{}: how far from the exact log\n", accuracy.limit);
    for trace in &accuracy.traces {
        let _ = write!(out, "\n{}\n{}", told_of(trace), table(trace));
    }
    out.push('\n');
    for paragraph in MEANINGS {
        out.push_str(&wrapped(paragraph, "", 79));
    }
    let figures: Vec<String> = accuracy.traces.iter().filter_map(of_the_counter).collect();
    if !figures.is_empty() {
        let told = format!(
            "sliding_counter decides otherwise than the log on {}. Cloudflare reports about {} of wrong decisions on its own \
             traffic. How many there are depends on how much of the traffic comes from clients near their limit.",
            figures.join(", "),
            share(CLOUDFLARE),
        );
        out.push('\n');
        out.push_str(&wrapped(&told, "", 79));
    }
    out
}

const MEANINGS: [&str; 4] = [
    "beside the log: requests let through where the exact log, which saw the same requests, denies, and the other way round; in \
     shares of all requests. One difference makes others follow: what one let through, the other may let through later.",
    "by its own past: requests let through though the window was full, or denied though there was room, given what the algorithm \
     itself had let through before.",
    "worst: the most that a client got in any window, as a multiple of the limit, and what the algorithm promises not to exceed.",
    "bytes: the most that a client's state took, on average, and what that of a client takes which spends the whole limit.",
];

fn table(trace: &Trialled) -> Table {
    let mut table = Table::new(&["", ">beside", ">the log", ">by its", ">own past", ">worst", ">prom-", ">bytes", ">"]);
    let second = ["algorithm", "let in", "denied", "let in", "denied", "window", "ised", "a key", "full"];
    table.row(second.map(str::to_owned));
    for tried in &trace.algorithms {
        let Tried { beside_log, by_own_history, .. } = tried;
        table.row([
            tried.algorithm.clone(),
            short_share(beside_log.share_admitted),
            short_share(beside_log.share_denied),
            short_share(by_own_history.share_admitted),
            short_share(by_own_history.share_denied),
            times(tried.worst_window_units, trace.max),
            times(tried.promised_window_units, trace.max).replace(".00", ""),
            count(rounded(tried.bytes_per_key)),
            units(tried.bytes_per_full_key),
        ]);
    }
    table
}

/// What the counter does on a trace, in a few words.
fn of_the_counter(trace: &Trialled) -> Option<String> {
    let counter = trace.algorithms.iter().find(|tried| tried.algorithm == "sliding_counter")?;
    Some(format!("{} of the {} trace", share(counter.beside_log.share()), trace.trace))
}
