//! All algorithms on one trace, as a page: the denials, the admitted units over time, the worst window and the memory of each.

mod over_time;

use super::{NO_REQUESTS, candidates::shares_denied, document::document, escape, header, section, simulation};
use crate::{
    formatting::{bytes, clip, count, plural, share, units},
    simulate::evaluation::{AlgorithmResult, TraceResult},
    table::Table,
    wording,
};

/// Returns the page of a trace that all algorithms decided.
pub fn comparison(found: &TraceResult) -> String {
    let subject = format!("{} on {}", escape::text(&found.limit), escape::name(&found.trace, 80));
    let header = |text: &str| header("simulate compare", &subject, &escape::text(&headline(found)), text);
    let content = if found.summary.requests == 0 {
        header("") + &simulation::full_keys(found)
    } else {
        let charts = format!("<div class=\"courses\">\n{}</div>\n", simulation::windows_and_memory(found));
        [
            header(&format!("<p>{}</p>\n", simulation::trace_summary(found))),
            denied(found),
            over_time::html(found),
            section("Worst windows and memory", &charts),
            simulation::full_keys(found),
            simulation::glossary(wording::COMPARISON),
        ]
        .concat()
    };
    document(&format!("{} on {} · Tidegate simulate", found.limit, clip(&found.trace, 60)), &content)
}

/// Describes the denials of `sliding_log`, and the minimum and maximum of the others.
fn headline(found: &TraceResult) -> String {
    let Some((log, others)) = found.algorithms.split_first().filter(|_| found.summary.requests > 0) else {
        return NO_REQUESTS.to_owned();
    };
    let of = plural(found.summary.requests, "request");
    if !is_denied(found) {
        return format!("No algorithm denies any of {of}.");
    }
    let first = format!("Of {of}, sliding_log denies {}", share(log.share_denied));
    let least = others.iter().min_by_key(|result| result.denied);
    match (least, others.iter().max_by_key(|result| result.denied)) {
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

/// Returns whether any algorithm denies a request.
fn is_denied(found: &TraceResult) -> bool {
    found.algorithms.iter().any(|result| result.denied > 0)
}

fn denied(found: &TraceResult) -> String {
    let shares = |result: &AlgorithmResult| vec![result.share_denied, result.share_of_clients_denied];
    let groups = found.algorithms.iter().map(|result| (result.algorithm.as_str(), shares(result))).collect();
    let chart = if is_denied(found) { shares_denied("algorithm", groups) } else { String::new() };
    section("What each algorithm denies", &(table(found) + &chart))
}

fn table(found: &TraceResult) -> String {
    let mut table = Table::new([
        "Algorithm",
        ">Requests denied",
        ">Share of requests",
        ">Clients denied",
        ">Share of clients",
        ">Unlike sliding_log",
        ">Worst window",
        ">Times the limit",
        ">Bound",
        ">Bytes",
    ]);
    for result in &found.algorithms {
        table.row([
            escape::text(&result.algorithm),
            count(result.denied),
            share(result.share_denied),
            count(result.clients_denied),
            share(result.share_of_clients_denied),
            share(result.beside_log.share()),
            units(result.worst_window_units),
            simulation::times(result.worst_window_times),
            units(result.promised_window_units),
            bytes(result.bytes_per_key),
        ]);
    }
    let (requests, clients) = (plural(found.summary.requests, "request"), plural(found.summary.clients, "client"));
    table.html(&format!("{requests} of {clients}"))
}
