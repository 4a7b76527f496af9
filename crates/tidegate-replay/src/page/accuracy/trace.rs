//! One trace: what each algorithm has decided wrongly, its worst window, what a client's state takes, and the figures.

use super::others;
use crate::{
    figures::{count, share, short_share},
    page::{
        Table, escape,
        plot::{Look, Rows},
        trial,
    },
    simulate::{
        trial::{Trialled, Tried, Wrong},
        words::{rounded, units},
    },
};

pub(super) fn html(trace: &Trialled) -> String {
    let name = escape::name(&trace.trace, 80);
    let asked = trial::asked(trace);
    if trace.asked.requests == 0 {
        return format!(
            "<section>\n<h2>{name}</h2>\n<p>No requests were read, so there is nothing to decide.</p>\n</section>\n"
        );
    }
    let denied = trace.algorithms.first().map_or(0.0, |log| log.share_denied);
    let wrong = if others(&trace.algorithms).next().is_some() { wrong(trace) } else { String::new() };
    format!(
        "<section>\n<h2>{name}</h2>\n<p>{asked} The log denies {}.</p>\n<div class=\"courses\">\n{wrong}{}{}</div>\n{}</section>\n",
        share(denied),
        trial::windows(trace),
        trial::memory(trace),
        table(trace),
    )
}

/// Which wrong decisions of an algorithm are meant.
type Which = fn(&Tried) -> Wrong;

/// Both meanings of wrong, side by side on the same scale.
fn wrong(trace: &Trialled) -> String {
    let kinds: [(&str, Which); 2] =
        [("Wrong beside the log", |tried| tried.beside_log), ("Wrong by its own past", |tried| tried.by_own_history)];
    let most = others(&trace.algorithms)
        .flat_map(|(_, tried)| kinds.map(|(_, wrong)| wrong(tried)))
        .flat_map(|wrong| [wrong.share_admitted, wrong.share_denied])
        .fold(0.0, f64::max);
    let one = |(title, wrong): (&str, Which)| {
        let rows = Rows::new(title, "share of all requests", share, short_share)
            .about("for each algorithm, the share of requests wrongly let through and wrongly denied")
            .series("wrongly let through", Look::Series(0))
            .series("wrongly denied", Look::Series(1))
            .as_far_as(most);
        let row = |rows: Rows, (_, tried): (usize, &Tried)| {
            let wrong = wrong(tried);
            rows.row(&tried.algorithm, &[wrong.share_admitted, wrong.share_denied])
        };
        others(&trace.algorithms).fold(rows, row).to_string()
    };
    kinds.map(one).concat()
}

fn table(trace: &Trialled) -> Table {
    let heads = [
        "Algorithm",
        ">Let through, beside the log",
        ">Denied, beside the log",
        ">Let through, by its own past",
        ">Denied, by its own past",
        ">Worst window",
        ">Times the limit",
        ">Promised at most",
        ">Bytes a client",
    ];
    let caption = format!("Wrong decisions of {}, worst windows in units, and memory", count(trace.asked.requests));
    let mut table = Table::new(caption, &heads);
    for tried in &trace.algorithms {
        let Tried { beside_log, by_own_history, .. } = tried;
        table.row([
            escape::text(&tried.algorithm),
            part(beside_log.admitted, beside_log.share_admitted),
            part(beside_log.denied, beside_log.share_denied),
            part(by_own_history.admitted, by_own_history.share_admitted),
            part(by_own_history.denied, by_own_history.share_denied),
            units(tried.worst_window_units),
            trial::times(tried.worst_window_times),
            units(tried.promised_window_units),
            count(rounded(tried.bytes_per_key)),
        ]);
    }
    table
}

fn part(n: u64, of: f64) -> String {
    if n == 0 { "0".to_owned() } else { format!("{} ({})", count(n), share(of)) }
}
