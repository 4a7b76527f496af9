//! All algorithms on one trace, in the terminal.

use crate::{
    figures::{count, share},
    simulate::{
        trial::{Trialled, Tried},
        words::{WINDOW_AND_BYTES, full_keys, rounded, times, told_of, wrapped},
    },
    text::table::Table,
};

/// A table of all algorithms, and what its columns mean.
pub fn text(trialled: &Trialled) -> String {
    let mut table = Table::new(&["", ">", ">clients", ">unlike", ">worst", ">its", ">bytes"]);
    let second = ["algorithm", "denied", "denied", "the log", "window", "bound", "a key"];
    table.row(second.map(str::to_owned));
    for tried in &trialled.algorithms {
        let Tried { share_denied, share_of_clients_denied, beside_log, .. } = tried;
        table.row([
            tried.algorithm.clone(),
            share(*share_denied),
            share(*share_of_clients_denied),
            share(beside_log.share()),
            times(tried.worst_window_units, trialled.max),
            times(tried.promised_window_units, trialled.max).replace(".00", ""),
            count(rounded(tried.bytes_per_key)),
        ]);
    }
    let mut out = format!("{}: all algorithms on one trace\n\n{}{table}\n", trialled.limit, told_of(trialled));
    for paragraph in MEANINGS {
        out.push_str(&wrapped(paragraph, "", 79));
    }
    out.push_str(&wrapped(&full_keys(trialled), "", 79));
    out
}

const MEANINGS: [&str; 3] = [
    "denied: requests, and clients that were denied at least one.",
    "unlike the log: requests decided otherwise than the exact log, which saw the same requests.",
    WINDOW_AND_BYTES,
];
