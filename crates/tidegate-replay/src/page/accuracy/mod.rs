//! How far the cheaper algorithms are from the exact log, as a page.

mod quoted;
mod trace;

use super::{document, escape, trial};
use crate::{figures::share, simulate::accuracy::Accuracy, simulate::trial::Tried};

/// The page of [`accuracy`](crate::simulate::accuracy).
pub fn accuracy(found: &Accuracy) -> String {
    let made_up = match (found.load, found.seed) {
        (Some(load), Some(seed)) => format!(
            "<p>Made-up clients ask for {load} times the limit on average, adversaries for more than they get; seed {seed}. The \
             same options give the same figures.</p>\n"
        ),
        _ => String::new(),
    };
    let traces: String = found.traces.iter().map(trace::html).collect();
    let body = format!(
        "<main>\n<header>\n<p class=\"eyebrow\"><b>Tidegate simulate accuracy</b> of {}</p>\n<h1>{}</h1>\n{made_up}</header>\n\
         {}{}{traces}{}</main>\n",
        escape::text(&found.limit),
        escape::text(&headline(found)),
        meanings(),
        quoted::html(found),
        found.traces.first().map_or_else(String::new, trial::full_keys),
    );
    document(&format!("{}: how far from exact · Tidegate simulate", found.limit), &body)
}

/// The algorithms beside the log.
fn others(tried: &[Tried]) -> impl Iterator<Item = (usize, &Tried)> {
    tried.iter().enumerate().filter(|(_, tried)| tried.algorithm != "sliding_log")
}

/// What the counter does, which is known best, or else the first beside the log.
fn headline(found: &Accuracy) -> String {
    let traces: Vec<_> = found.traces.iter().filter(|trace| trace.asked.requests > 0).collect();
    let Some(first) = traces.first() else {
        return "No requests were tried, so there is nothing to compare.".to_owned();
    };
    let counter = others(&first.algorithms).find(|(_, tried)| tried.algorithm == "sliding_counter");
    let Some((place, tried)) = counter.or_else(|| others(&first.algorithms).next()) else {
        return "Only the exact log was tried, and it is never wrong.".to_owned();
    };
    let shares = traces.iter().filter_map(|trace| trace.algorithms.get(place)).map(|tried| tried.beside_log.share());
    let (least, most) = shares.fold((1.0_f64, 0.0_f64), |(least, most), share| (least.min(share), most.max(share)));
    let (least, most) = (share(least), share(most));
    let name = &tried.algorithm;
    if least == most {
        return format!("{name} decides {most} of requests otherwise than the exact log.");
    }
    format!("{name} decides {least} to {most} of requests otherwise than the exact log, depending on the traffic.")
}

fn meanings() -> String {
    trial::meanings(
        "What wrong means",
        &[
            (
                "Beside the log",
                "Requests let through where the exact log, which saw the same requests, denies; and denied where it lets them \
                 through. One difference makes others follow: what one has let through, the other may let through later.",
            ),
            (
                "By its own past",
                "Requests let through though the window was full, or denied though there was room, given what the algorithm \
                 itself had let through before. Nothing follows from an earlier difference here.",
            ),
            ("Shares", "Both are shares of all requests."),
        ],
    )
}
