//! All algorithms on one trace, as text.

use super::{full_keys, glossary, trace_heading, window_and_bytes};
use crate::{formatting::share, simulate::evaluation::TraceResult, table::Table, wording};

/// Returns a table of all algorithms, and the meaning of its columns.
pub fn comparison(trace: &TraceResult) -> String {
    let mut table = Table::new(["", ">", ">clients", ">unlike", ">worst", ">", ">"]);
    table.row(["algorithm", "denied", "denied", "sliding_log", "window", "bound", "bytes"].map(str::to_owned));
    for result in &trace.algorithms {
        let shares = [result.share_denied, result.share_of_clients_denied, result.beside_log.share()].map(share);
        let name = std::iter::once(result.algorithm.clone());
        table.row(name.chain(shares).chain(window_and_bytes(result, trace.max)));
    }
    let (heading, table) = (trace_heading(trace), table.text());
    let meanings = glossary(wording::COMPARISON) + &full_keys(trace);
    format!("{}: all algorithms on one trace\n\n{heading}{table}\n{meanings}", trace.limit)
}
