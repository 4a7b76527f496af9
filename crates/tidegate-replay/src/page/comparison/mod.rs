//! All algorithms on one trace, as a page: what each denies, what it lets through over time, its worst window, its memory.

mod over_time;

use super::plot::{Look, Rows};
use super::{Table, document, escape, trial};
use crate::{
    figures::{count, counted, share, short_share},
    simulate::{
        trial::{Trialled, Tried},
        words::{rounded, units},
    },
};

/// The page of [`compare`](crate::simulate::compare).
pub fn comparison(found: &Trialled) -> String {
    let sections = if found.asked.requests == 0 {
        String::new()
    } else {
        [denied(found), over_time::html(found), windows_and_memory(found)].concat()
    };
    let body = format!(
        "<main>\n<header>\n<p class=\"eyebrow\"><b>Tidegate simulate compare</b> of {} on {}</p>\n<h1>{}</h1>\n{}</header>\n\
         {sections}{}{}</main>\n",
        escape::text(&found.limit),
        escape::name(&found.trace, 80),
        escape::text(&headline(found)),
        if found.asked.requests == 0 { String::new() } else { format!("<p>{}</p>\n", trial::asked(found)) },
        trial::full_keys(found),
        if found.asked.requests == 0 { String::new() } else { meanings() },
    );
    document(&format!("{} on {} · Tidegate simulate", found.limit, escape::clip(&found.trace, 60)), &body)
}

/// What the log denies, and the others at least and at most.
fn headline(found: &Trialled) -> String {
    let Some((log, others)) = found.algorithms.split_first().filter(|_| found.asked.requests > 0) else {
        return "No requests were read, so there is nothing to decide.".to_owned();
    };
    let of = counted(found.asked.requests, "request");
    if !denies(found) {
        return format!("No algorithm denies any of {of}.");
    }
    let first = format!("Of {of} the exact log denies {}", share(log.share_denied));
    let by_share = |a: &&Tried, b: &&Tried| a.denied.cmp(&b.denied);
    match (others.iter().min_by(by_share), others.iter().max_by(by_share)) {
        (Some(least), Some(most)) if least.denied != most.denied => format!(
            "{first}, the others from {} ({}) to {} ({}).",
            share(least.share_denied),
            least.algorithm,
            share(most.share_denied),
            most.algorithm,
        ),
        (Some(one), _) if others.len() == 1 => format!("{first}, {} {}.", one.algorithm, share(one.share_denied)),
        (Some(one), _) => format!("{first}, all others {}.", share(one.share_denied)),
        _ => format!("{first}."),
    }
}

/// Whether anything is denied by any algorithm.
fn denies(found: &Trialled) -> bool {
    found.algorithms.iter().any(|tried| tried.denied > 0)
}

fn denied(found: &Trialled) -> String {
    let rows = Rows::new("Share denied", "share denied, %", share, short_share)
        .about("for each algorithm, the share of requests and the share of clients that it denies")
        .series("of requests", Look::Series(0))
        .series("of clients, at least once", Look::Series(1));
    let row =
        |rows: Rows, tried: &Tried| rows.row(&tried.algorithm, &[tried.share_denied, tried.share_of_clients_denied]);
    let rows = if denies(found) { found.algorithms.iter().fold(rows, row).to_string() } else { String::new() };
    format!("<section>\n<h2>What each algorithm denies</h2>\n{}{rows}</section>\n", table(found))
}

fn table(found: &Trialled) -> Table {
    let heads = [
        "Algorithm",
        ">Requests denied",
        ">Share of requests",
        ">Clients denied",
        ">Share of clients",
        ">Unlike the log",
        ">Worst window",
        ">Times the limit",
        ">Promised at most",
        ">Bytes a client",
    ];
    let caption = format!("{} of {}", counted(found.asked.requests, "request"), counted(found.asked.clients, "client"));
    let mut table = Table::new(caption, &heads);
    for tried in &found.algorithms {
        table.row([
            escape::text(&tried.algorithm),
            count(tried.denied),
            share(tried.share_denied),
            count(tried.clients_denied),
            share(tried.share_of_clients_denied),
            share(tried.beside_log.share()),
            units(tried.worst_window_units),
            trial::times(tried.worst_window_times),
            units(tried.promised_window_units),
            count(rounded(tried.bytes_per_key)),
        ]);
    }
    table
}

fn windows_and_memory(found: &Trialled) -> String {
    format!(
        "<section>\n<h2>Worst windows and memory</h2>\n<div class=\"courses\">\n{}{}</div>\n</section>\n",
        trial::windows(found),
        trial::memory(found),
    )
}

fn meanings() -> String {
    trial::meanings(
        "What the figures mean",
        &[
            ("Unlike the log", "requests decided otherwise than by the exact log, which saw the same requests"),
            ("Worst window", "the most units that one client got in any window, wherever on the time line it lies"),
            ("Promised", "what the algorithm promises never to exceed there, whatever is asked"),
            ("Bytes a client", "the most that a client's state took, on average over a sample of clients"),
        ],
    )
}
