//! All algorithms on one trace, in the terminal.

use crate::{
    figures::{count, share},
    simulate::{
        trial::{Trialled, Tried},
        words::{rounded, short_share, times, told_of, units, wrapped},
    },
    text::table::Table,
};

/// A table of all algorithms, and what its columns mean.
pub fn text(trialled: &Trialled) -> String {
    let mut table = Table::new(&["", ">", ">clients", ">unlike", ">worst", ">prom-", ">bytes", ">"]);
    let second = ["algorithm", "denied", "denied", "the log", "window", "ised", "a key", "full"];
    table.row(second.map(str::to_owned));
    for tried in &trialled.algorithms {
        let Tried { share_denied, share_of_clients_denied, beside_log, .. } = tried;
        table.row([
            tried.algorithm.clone(),
            share(*share_denied),
            share(*share_of_clients_denied),
            short_share(beside_log.share()),
            times(tried.worst_window_units, trialled.max),
            times(tried.promised_window_units, trialled.max).replace(".00", ""),
            count(rounded(tried.bytes_per_key)),
            units(tried.bytes_per_full_key),
        ]);
    }
    let mut out = format!("{}: all algorithms on one trace\n\n{}\n{table}\n", trialled.limit, told_of(trialled));
    for paragraph in MEANINGS {
        out.push_str(&wrapped(paragraph, "", 79));
    }
    out
}

const MEANINGS: [&str; 4] = [
    "denied: requests, and clients that were denied at least one.",
    "unlike the log: requests decided otherwise than the exact log, which saw the same requests.",
    "worst: the most that a client got in any window, as a multiple of the limit, and what the algorithm promises not to exceed.",
    "bytes: the most that a client's state took, on average, and what that of a client takes which spends the whole limit.",
];
